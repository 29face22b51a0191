"""Bytes as tokens, for Hugging Face transformers: the ids 0 to 255 are the bytes of the text in UTF-8."""

from transformers import PreTrainedTokenizer


class ByteTokenizer(PreTrainedTokenizer):
    """BOS and EOS are 254 and 255, which UTF-8 never uses, or 256 and 257 for binary data (`bos_id`, `eos_id`).

    A text is encoded as BOS and its bytes, without EOS, so that it can be continued; `add_special_tokens=False` leaves
    BOS out. Padding takes id 0 and is told from the byte by the attention mask.
    """

    model_input_names = ["input_ids", "attention_mask"]

    def __init__(
        self,
        bos_token="<|bos|>",
        eos_token="<|eos|>",
        pad_token="<|pad|>",
        vocab_size=384,
        bos_id=254,
        eos_id=255,
        **kwargs,
    ):
        self.bos_id, self.eos_id, self.pad_id = bos_id, eos_id, 0
        self._vocab_size = vocab_size
        self._names = {str(bos_token): bos_id, str(eos_token): eos_id, str(pad_token): 0}
        # They must not be found inside a text, where they are bytes like any others.
        kwargs["split_special_tokens"] = True
        super().__init__(
            bos_token=bos_token,
            eos_token=eos_token,
            pad_token=pad_token,
            vocab_size=vocab_size,
            bos_id=bos_id,
            eos_id=eos_id,
            **kwargs,
        )
        # Everything is in the vocabulary from the start; what the base class added takes no further ids.
        self._added_tokens_decoder.clear()
        if hasattr(self, "_update_trie"):
            self._update_total_vocab_size()

    @property
    def vocab_size(self):
        return self._vocab_size

    def __len__(self):
        return self._vocab_size

    def get_vocab(self):
        return {**{f"<byte_{i}>": i for i in range(256)}, **self._names}

    def _tokenize(self, text, **kwargs):
        return [f"<byte_{byte}>" for byte in text.encode("utf-8", errors="surrogateescape")]

    def _convert_token_to_id(self, token):
        if token in self._names:
            return self._names[token]
        if token.startswith("<byte_") and token.endswith(">"):
            return int(token[6:-1])
        raise ValueError(f"{token!r} is not a token; expected <byte_0> to <byte_255> or {', '.join(self._names)}")

    def convert_tokens_to_ids(self, tokens):
        if tokens is None:
            return None
        if isinstance(tokens, str):
            return self._convert_token_to_id(tokens)
        return [self._convert_token_to_id(token) for token in tokens]

    def _convert_id_to_token(self, index):
        for name, number in self._names.items():
            if number == index and number != self.pad_id:
                return name
        return f"<byte_{index}>" if 0 <= index < 256 else f"<unused_{index}>"

    def convert_ids_to_tokens(self, ids, skip_special_tokens=False):
        if isinstance(ids, int):
            return self._convert_id_to_token(ids)
        special = (self.bos_id, self.eos_id)
        return [
            self._convert_id_to_token(int(i)) for i in ids if not (skip_special_tokens and int(i) in special)
        ]

    def convert_tokens_to_string(self, tokens):
        ids = [int(token[6:-1]) for token in tokens if token.startswith("<byte_")]
        return bytes(ids).decode("utf-8", errors="replace")

    def _decode(self, token_ids, skip_special_tokens=False, **kwargs):
        ids = [token_ids] if isinstance(token_ids, int) else [int(i) for i in token_ids]
        special = (self.bos_id, self.eos_id)
        return bytes(i for i in ids if i < 256 and i not in special).decode("utf-8", errors="replace")

    def build_inputs_with_special_tokens(self, token_ids_0, token_ids_1=None):
        return [self.bos_id, *token_ids_0, *(token_ids_1 or [])]

    def num_special_tokens_to_add(self, pair=False):
        return 1

    def get_special_tokens_mask(self, token_ids_0, token_ids_1=None, already_has_special_tokens=False):
        if already_has_special_tokens:
            return [int(i in (self.bos_id, self.eos_id)) for i in token_ids_0]
        return [1] + [0] * (len(token_ids_0) + len(token_ids_1 or []))

    def create_token_type_ids_from_sequences(self, token_ids_0, token_ids_1=None):
        return [0] * (1 + len(token_ids_0) + len(token_ids_1 or []))

    def save_vocabulary(self, save_directory, filename_prefix=None):
        return ()


ByteTokenizer.register_for_auto_class("AutoTokenizer")

__all__ = ["ByteTokenizer"]
