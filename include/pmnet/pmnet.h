/// \file
/// Includes the whole public interface of pmnet.
#pragma once
#include <pmnet/error.h>
#include <pmnet/model.h>
#include <pmnet/session.h>
#include <pmnet/trainer.h>
#include <pmnet/version.h>

/// The Phasor Memory Network: load a model, stream bytes through it, generate, score, train.
///
/// Only standard types appear in this interface, so a program that uses it needs neither the headers of LibTorch nor
/// those of any other library. Classes live in an inline namespace that names the version of the binary interface.
namespace pmnet {}
