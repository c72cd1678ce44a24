#include "core/tensor/shape.h"

#include <cstdint>

#include "core/tensor/dtype.h"
#include "tests/cpp/check.h"

namespace {

using mge::Dims;
using mge::ErrorKind;
using mge::test::raises;

constexpr std::int64_t kHuge = std::int64_t{1} << 40;

TEST(dims) {
  Dims d{2, 3};
  d.push_back(4);
  d.insert(1, 7);
  CHECK((d == Dims{2, 7, 3, 4}));
  d.erase(0);
  CHECK((d == Dims{7, 3, 4}));
  d.resize(5, 1);
  CHECK((d == Dims{7, 3, 4, 1, 1}));
  CHECK(mge::str(d) == "(7, 3, 4, 1, 1)");
  CHECK(mge::str(Dims{2}) == "(2,)");
  CHECK(mge::str(Dims{}) == "()");
}

TEST(too_many_dims) {
  Dims d = Dims::filled(mge::kMaxDims, 1);
  CHECK(raises(ErrorKind::value, "dimensions", [&] { d.push_back(1); }));
  CHECK(raises(ErrorKind::value, "dimensions", [&] { d.insert(0, 1); }));
  CHECK(raises(ErrorKind::value, "dimensions", [&] { d.resize(mge::kMaxDims + 1); }));
  CHECK(d.size() == mge::kMaxDims);
}

TEST(count) {
  CHECK(mge::count(Dims{}) == 1);
  CHECK((mge::count(Dims{2, 3, 4}) == 24));
  CHECK((mge::count(Dims{kHuge, 0, kHuge, kHuge}) == 0));
  CHECK(raises(ErrorKind::value, "2^62", [] { mge::count(Dims{kHuge, kHuge}); }));
  CHECK(raises(ErrorKind::value, "2^62", [] { mge::count(Dims{kHuge, kHuge, kHuge}); }));
  CHECK(raises(ErrorKind::value, "negative", [] { mge::count(Dims{2, -1}); }));
}

TEST(strides_of_huge_empty_shapes) {
  CHECK((mge::is_row_major(Dims{0, kHuge, kHuge}, mge::row_major(Dims{0, kHuge, kHuge}))));
  CHECK((mge::channels_last(Dims{0, kHuge, kHuge, kHuge}).size() == 4));
}

TEST(row_major) {
  CHECK((mge::row_major(Dims{2, 3, 4}) == Dims{12, 4, 1}));
  CHECK((mge::is_row_major(Dims{2, 1, 4}, Dims{4, 99, 1})));
  CHECK(!(mge::is_row_major(Dims{2, 3}, Dims{1, 2})));
  CHECK(!(mge::is_row_major(Dims{2, 3}, Dims{-3, 1})));
  CHECK(!(mge::is_row_major(Dims{2, 3}, Dims{0, 1})));
}

TEST(dense) {
  CHECK((mge::is_dense(Dims{2, 3}, Dims{1, 2})));
  CHECK(!(mge::is_dense(Dims{2, 3}, Dims{6, 2})));
  CHECK(!(mge::is_dense(Dims{2, 3}, Dims{0, 1})));
  CHECK((mge::dense_like(Dims{2, 3, 4}, Dims{1, 8, 2}) == Dims{1, 8, 2}));
  CHECK((mge::dense_like(Dims{5, 3}, Dims{100, 7}) == Dims{3, 1}));
}

TEST(channels_last) {
  const Dims shape{2, 3, 4, 5};
  CHECK((mge::channels_last(shape) == Dims{60, 1, 15, 3}));
  CHECK(mge::is_channels_last(shape, mge::channels_last(shape)));
  CHECK(!mge::is_channels_last(shape, mge::row_major(shape)));
  CHECK((mge::dense_like(shape, mge::channels_last(shape)) == mge::channels_last(shape)));
}

TEST(broadcast) {
  CHECK((mge::broadcast("Add", Dims{2, 1, 4}, Dims{3, 1}) == Dims{2, 3, 4}));
  CHECK((mge::broadcast("Add", Dims{0}, Dims{1}) == Dims{0}));
  CHECK((mge::broadcast("Add", Dims{}, Dims{2}) == Dims{2}));
  CHECK(raises(ErrorKind::value, "Add: ", [] { mge::broadcast("Add", Dims{2}, Dims{3}); }));
  CHECK(raises(ErrorKind::value, "Add: ", [] { mge::broadcast("Add", Dims{2}, Dims{0}); }));
  CHECK((mge::broadcast_strides(Dims{3, 1}, Dims{1, 1}, Dims{2, 3, 4}) == Dims{0, 1, 0}));
}

TEST(axes) {
  CHECK(mge::normalize_axis("Sum", -1, 3) == 2);
  CHECK(raises(ErrorKind::value, "Sum: axis 3", [] { mge::normalize_axis("Sum", 3, 3); }));
  CHECK(raises(ErrorKind::value, "Sum: axis 0", [] { mge::normalize_axis("Sum", 0, 0); }));
  CHECK((mge::normalize_axes("Sum", Dims{-1, 0}, 3) == Dims{0, 2}));
  CHECK(raises(ErrorKind::value, "twice", [] { mge::normalize_axes("Sum", Dims{2, -1}, 3); }));
}

TEST(dtypes) {
  CHECK(mge::dtype_from_name("Cast", "bool") == mge::DType::boolean);
  CHECK(raises(ErrorKind::type, "Cast: ", [] { mge::dtype_from_name("Cast", "float31"); }));
}

}  // namespace
