// For CUTLASS's tests of planar complex products (test/unit/gemm/device/sm100_gemm_planar_*.cu), whose released testbed lacks the function that they call:
// a size is said here; kernel, data, reference and comparison are the project's. nvcc takes it with -include.
#pragma once

#include "cutlass/epilogue/collective/collective_builder.hpp"

#include "cutlass/epilogue/collective/sm100_epilogue_planar_complex_tma_warpspecialized.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "gemm_testbed_3x_planar_complex.hpp"

namespace test::gemm::device {

template <typename Gemm>
bool TestPlanarComplexSmall() {
  Testbed3xPlanarComplex<Gemm> testbed;
  return testbed.run({64, 64, 128, 1});
}

}  // namespace test::gemm::device
