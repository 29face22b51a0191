"""Reads the documentation: pages, code blocks, links, and what is wrong with them. No dependencies."""
import dataclasses
import pathlib
import re
import shlex

FENCE = re.compile(r"^```(\S*)\s*$")
DIRECTIVE = re.compile(r"^<!--\s*(not run|test with):\s*(.*?)\s*-->$")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+\s+(.*?)\s*$")
CODE_SPAN = re.compile(r"`([^`]+)`")
SOURCE_PATH = re.compile(r"^(src|tests|docs|recipes|include|examples|tools|experiments|bench|cmake|dev)/[\w./*-]*$")


@dataclasses.dataclass
class Block:
    """A fenced code block."""
    line: int
    language: str
    text: str
    not_run: str = ""  # why the block is not run; empty: it is
    replacements: tuple = ()  # pairs (text, smaller text) for the test


@dataclasses.dataclass
class Page:
    path: pathlib.Path
    prose: list  # (line number, text) outside code blocks
    blocks: list


def read_page(path):
    prose, blocks = [], []
    block, directive = None, None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        fence = FENCE.match(line.strip())
        if block is not None:
            if fence:
                blocks.append(block)
                block = None
            else:
                block.text += line + "\n"
            continue
        if fence:
            block = Block(number, fence.group(1), "")
            if directive and directive[0] == "not run":
                block.not_run = directive[1]
            elif directive:
                block.replacements = tuple(
                    tuple(part.strip() for part in pair.split("->")) for pair in directive[1].split(";"))
            directive = None
            continue
        match = DIRECTIVE.match(line.strip())
        if match:
            directive = match.groups()
        elif line.strip():
            directive = None
        prose.append((number, line))
    return Page(path, prose, blocks)


def anchors_of(path):
    """The anchors that GitHub gives the headings of a page."""
    found = set()
    for _, line in read_page(path).prose:
        match = HEADING.match(line)
        if match:
            text = re.sub(r"[`*]", "", match.group(1)).lower()
            slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            count = 1
            while slug in found:
                slug = f"{slug.rstrip('0123456789-')}-{count}"
                count += 1
            found.add(slug)
    return found


def link_problems(page, root):
    for number, line in page.prose:
        for match in LINK.finditer(CODE_SPAN.sub("", line)):
            target = match.group(1) or match.group(2)
            if re.match(r"^[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            file = (page.path.parent / name).resolve() if name else page.path
            if not file.exists():
                yield f"{page.path.relative_to(root)}:{number}: link to {target}, which does not exist"
            elif anchor and anchor not in anchors_of(file):
                yield f"{page.path.relative_to(root)}:{number}: {target}: the page has no heading with this anchor"


def path_problems(page, root):
    """Source files and folders that the prose names in `code spans`."""
    for number, line in page.prose:
        for span in CODE_SPAN.findall(line):
            if SOURCE_PATH.match(span) and not any(root.glob(span.rstrip("/"))):
                yield f"{page.path.relative_to(root)}:{number}: `{span}` does not exist"


def unchecked_block_problems(page, root):
    """Commands in a block that the test does not see."""
    for block in page.blocks:
        if block.language != "sh" and re.search(r"^(\./)?pmnet ", block.text, re.MULTILINE) and not block.text.startswith("$"):
            if block.language != "text":
                yield f"{page.path.relative_to(root)}:{block.line}: commands belong into a ```sh block"


def place_problems(page, root):
    """Rows `| topic | `file` | `symbol` | ...` of the table under the heading "Where to find it"."""
    inside, rows = False, 0
    for number, line in page.prose:
        heading = HEADING.match(line)
        if heading:
            inside = heading.group(1) == "Where to find it"
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if not inside or len(cells) < 3 or not CODE_SPAN.search(cells[1]):
            continue
        rows += 1
        files, symbols = CODE_SPAN.findall(cells[1]), CODE_SPAN.findall(cells[2])
        if len(files) > 2:
            yield f"{page.path.relative_to(root)}:{number}: {cells[0]} needs {len(files)} files; two should be enough"
        missing = [file for file in files if not (root / file).is_file()]
        for file in missing:
            yield f"{page.path.relative_to(root)}:{number}: {file} does not exist"
        text = "".join((root / file).read_text(encoding="utf-8") for file in files if file not in missing)
        for symbol in symbols:
            if not re.search(rf"(?<!\w){re.escape(symbol)}(?!\w)", text):
                yield f"{page.path.relative_to(root)}:{number}: {', '.join(files)}: no {symbol}"
    if rows == 0:
        yield f"{page.path.relative_to(root)}: the table \"Where to find it\" has no rows"


def commands_of(text):
    """The words of every pmnet command in a shell block, joined lines included."""
    for line in text.replace("\\\n", " ").splitlines():
        for part in re.split(r"\||&&|;", line):
            try:
                words = shlex.split(part, comments=True)
            except ValueError:
                continue
            starts = [i for i, word in enumerate(words) if word in ("pmnet", "./pmnet")]
            if starts and (starts[0] == 0 or words[0] in ("torchrun", "tail")):
                yield words[starts[0] + 1:]


def option_problems(page, root, help_of):
    """Options that the program does not have. help_of(words) is the help text of a command."""
    for block in page.blocks:
        if block.language != "sh":
            continue
        for words in commands_of(block.text):
            command = [word for word in words if re.match(r"^[a-z]+$", word)][:1]
            if command == ["data"]:
                command = words[:2]
            if not command or command[0] in ("setup", "test", "format"):
                continue
            known = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", help_of(command)))
            for word in words:
                name = word.split("=")[0]
                if re.match(r"^--?[a-z]", name) and name not in known | {"--threads"}:
                    yield f"{page.path.relative_to(root)}:{block.line}: pmnet {' '.join(command)} has no option {name}"
