// Every test program starts like every program of ours: with the AMX guard, before anything can reach oneDNN.
#include <gtest/gtest.h>

#include "base/amx_guard.h"

int main(int argc, char** argv) {
  pmnet::guard_against_broken_amx();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
