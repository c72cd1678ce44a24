// Passes: each rewrites a graph into one that computes the same outputs with less work. A pass
// lives in a file of its own in passes/; optimize() is the only place that knows their order.
//
// A pass may drop nodes, put others in their place and add values; ids of what comes from outside
// stay what they are, and outputs keep their order (an output may become another id). The tests
// verify the graph after each (verify.h).
#pragma once

#include "core/graph/graph.h"

namespace mge {

// Nodes that nothing needs go, but for those that draw random numbers: later draws depend on them.
void remove_dead_code(Graph& graph);
// A node that computes what an earlier one did goes, and the earlier results stand for its own.
void merge_common_subexpressions(Graph& graph);
// Nodes of constants alone run once, now. (What follows them is a constant too.)
void fold_constants(Graph& graph);
// What adds nothing goes: a cast to the dtype that is there, a product with one, a reshape of a
// reshape. x * sigmoid(x) and its kin become the activation that they are.
void simplify(Graph& graph);
// Batch norm with fixed statistics, and products with and sums of constants for each channel,
// become part of the constant weights and bias of the convolution or matrix product before them.
void fold_scales_into_weights(Graph& graph);
// A convolution or matrix product with constant weights takes the sum with a residual and the
// activation that follow it into its own kernel.
void fuse_post_ops(Graph& graph);
// GELU of what a layer computes is no more exact than that.
void take_fast_gelu(Graph& graph);

// Parts that are written into tensors of zeros and added up are written into one.
void join_slices(Graph& graph);
// The softmax of a product of matrices, times a matrix, becomes attention in tiles.
void fuse_attention(Graph& graph);
// Elementwise ops that feed one another become one.
void fuse_elementwise(Graph& graph);
// A reduction takes the elementwise ops before it into its own.
void fuse_reductions(Graph& graph);

// Values that are cheap to compute are computed twice where they would wait for their second use at
// the peak of memory.
void recompute_cheap_values(Graph& graph);
// Steps of optimizers run as soon as their gradients are there.
void update_early(Graph& graph);
// Contents that no node takes any more, such as weights that others were made of, are not kept.
void let_go_of_unused_constants(Graph& graph);

// All of them, in order.
void optimize(Graph& graph);

}  // namespace mge
