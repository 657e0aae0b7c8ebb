// Multi-scale deformable attention (Zhu et al., "Deformable DETR", ICLR 2021; BEVFormer, UniAD): a
// query reads V bilinearly at a few points of every level, and adds what it reads with given
// weights. Outside a level V is 0.
//
// A point that does not lie within one pixel of its level adds nothing, whatever its weight is. A
// point with a NaN or infinite location adds nothing either. The compiled kernels of mmcv,
// Deformable DETR and TensorRT do the same: they skip a point whose coordinate fails a comparison,
// and NaN fails all. grid_sample of PyTorch returns NaN there instead (pytorch/pytorch#51911).
#pragma once
#include <memory>

#include "core/operations/deformable/deformable_arithmetic.hpp"
#include "core/operations/operation.hpp"

namespace attest::core {

/// ATTEST_DEFORMABLE over attest_deformable_params.
const Operation& deformable_operation();

/// Operation::fills. "random": around a point of each query, some points outside. "borders": on and
/// beside the edges of the levels and the centres of pixels; weights have both signs and are large
/// or small, and some values are large. "far": far outside, up to the largest
/// number of the dtype. "alone": one level, or all points of one place, has all the weight.
/// "cancelling": V is a plane in parts and the weights cancel, so the true output is 0, and the
/// errors inside a kernel show. "wild": NaN and infinite locations, NaN in V beside the pixels that
/// are read and in some that are, NaN weights of points outside and of some inside.
void fill_deformable(const Problem& problem, const Fill& fill, const Tensors& tensors);

std::vector<std::unique_ptr<Relation>> deformable_relations(const Problem& problem,
                                                            const Tensors& inputs);
std::vector<Variant> deformable_variants(const Problem& problem);
std::vector<Mistake> deformable_mistakes(const Problem& problem, const Tensors& inputs);

/// The golden in float64. It has the value of every row, or, if that takes too long, the values of
/// a sample of each head's rows and bounds for the other rows. It keeps the numbers of all rows of
/// a sequence (8 bytes each), and each thread keeps the values of one task's rows.
std::unique_ptr<Golden> deformable_golden(const Problem& problem, const Tensors& tensors);

/// Operation::kernels: a sample is summed, then weighed; or the weight is multiplied with the
/// bilinear factors first; or a sample is interpolated by differences, a + f (b - a), in each row
/// of pixels and then between the two, and weighed.
inline constexpr int kDeformableKernels = 3;
/// Operation::emulate.
void emulate_deformable(const Problem& problem, const Tensors& tensors,
                        const DeformableArithmetic& arithmetic, int kernel,
                        std::span<const int64_t> rows, const EmulationSink& sink);

}  // namespace attest::core
