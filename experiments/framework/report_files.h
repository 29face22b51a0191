#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "experiments/framework/experiment.h"

namespace pmnet {

// report.html and report.md: claims with verdicts, pictures and tables; protocol, settings, parts and machine.
// `settings` is settings.json, `parts` the records in result.json.
void write_report_files(const Report& report, const nlohmann::json& settings, const std::vector<nlohmann::json>& parts,
                        const std::filesystem::path& folder);

// report.html and report.md of several experiments in the folders <folder>/<name>: every claim with its verdict.
void write_overview(const std::vector<std::pair<std::string, Report>>& experiments,
                    const std::filesystem::path& folder);

}  // namespace pmnet
