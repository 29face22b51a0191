// The one precompiled header of every target that sees LibTorch. Keep <torch/torch.h> out: it triples the cost.
#pragma once
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <nlohmann/json.hpp>
