// An evaluation as tables, JSON, CSV and charts, each with the protocol that produced it.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "eval/curves.h"
#include "eval/evaluate.h"
#include "report/plot.h"
#include "report/table.h"

namespace pmnet {

// One sentence: what is scored, and how it is read.
std::string protocol_of(const EvalSettings& settings, const DocumentLimits& limits);

// "[1.4032, 1.5210]", or "-" where there are too few documents for an interval.
std::string interval_text(const Interval& interval, int digits = 4);

Table model_table(const Evaluation& evaluation);     // one row per candidate; the first is what others differ from
Table octave_table(const Evaluation& evaluation);    // one row per octave of positions
Table document_table(const Evaluation& evaluation);  // one row per document
Table curve_table(const Evaluation& evaluation);     // every point of every curve, for .csv files

nlohmann::ordered_json to_json(const Interval& interval);  // null where there is no bound
nlohmann::ordered_json to_json(const PositionCurve& curve);
nlohmann::ordered_json to_json(const ThroughputCurve& curve);
nlohmann::ordered_json to_json(const Evaluation& evaluation);

// What the command prints.
std::string eval_summary(const Evaluation& evaluation, const DocumentQueue& queue, const std::string& protocol,
                         bool per_document);

struct EvalFiles {
  std::string json, csv, plot;  // empty: not written
};
void write_files(const EvalFiles& files, const Evaluation& evaluation, const std::string& protocol);

// Bits per byte by position and so far, on a logarithmic axis; how far the others are from the first.
std::vector<LineChart> eval_charts(const Evaluation& evaluation);
Series series_of(const std::string& name, const PositionCurve& curve);

}  // namespace pmnet
