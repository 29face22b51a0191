// The model that a command works with: its first argument, or the model that ships with the program.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace pmnet {

constexpr const char* kModelHelp = "Model folder, or folder of a training run [the model that ships with pmnet]";

// The folder of the model that ships with the program, where it is installed.
std::optional<std::filesystem::path> find_shipped_model();

// Both make the shipped model the default, with a note to stderr. UserError where it is not installed.

// Commands that read texts: when the first argument is a text rather than a model, it is put before `texts`. UserError
// when no text is left.
void default_model(std::string& model, std::vector<std::string>& texts);

// Commands that take one other argument, absent so far: when there is only one and it is not a model, it is that other.
// A missing path such as runs/first is taken for the mistyped name of a model.
void default_model(std::string& model, std::optional<std::string>& other);

}  // namespace pmnet
