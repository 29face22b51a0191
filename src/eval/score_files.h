// Evaluations kept in files: what was scored, without loss, so that curves can be drawn and models compared later.
#pragma once
#include <nlohmann/json.hpp>
#include <vector>

#include "eval/evaluate.h"

namespace pmnet {

nlohmann::json save_scores(const Evaluation& evaluation);
Evaluation load_scores(const nlohmann::json& json);

// Further documents read by the same models.
void add_documents(Evaluation& evaluation, const Evaluation& more);
// Several models that read the same documents, each in its own evaluation; other documents are a UserError.
Evaluation side_by_side(const std::vector<Evaluation>& evaluations);

}  // namespace pmnet
