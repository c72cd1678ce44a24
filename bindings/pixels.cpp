// Kernels of 8-bit images, on NumPy arrays. megengine.data.transform calls them with what they
// expect; what does not fit raises all the same.

#include "bindings/pixels.h"

#include <nanobind/ndarray.h>

#include <stdexcept>

#include "core/kernels/cpu/pixels.h"

namespace mge::py {

namespace nb = nanobind;

namespace {

using Image = nb::ndarray<const std::uint8_t, nb::ndim<3>, nb::device::cpu>;
using Numbers = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

void expect(bool right, const char* what) {
  if (!right) throw std::invalid_argument(what);
}

cpu::Pixels pixels(const Image& image) {
  const auto channels = static_cast<std::int64_t>(image.shape(2));
  expect(channels >= 1 && channels <= cpu::kMaxPixelChannels, "pixels: expected 1 to 4 channels");
  expect(image.size() == 0 || ((image.stride(2) == 1 || channels == 1) &&
                               (image.stride(1) == channels || image.shape(1) == 1)),
         "pixels: expected pixels that stand side by side");
  return {image.data(), static_cast<std::int64_t>(image.shape(0)),
          static_cast<std::int64_t>(image.shape(1)), channels, image.stride(0)};
}

void expect_numbers(const Numbers& numbers, const cpu::Pixels& in) {
  expect(static_cast<std::int64_t>(numbers.size()) == in.channels,
         "pixels: expected a number for each channel");
}

template <class T>
void expect_shape(const Out<T>& out, std::int64_t a, std::int64_t b, std::int64_t c) {
  expect(static_cast<std::int64_t>(out.shape(0)) == a &&
             static_cast<std::int64_t>(out.shape(1)) == b &&
             static_cast<std::int64_t>(out.shape(2)) == c,
         "pixels: the output has another shape");
}

}  // namespace

void bind_pixels(nb::module_& m) {
  m.def(
      "normalize_pixels",
      [](const Image& image, const Numbers& mean, const Numbers& std, const Out<float>& out,
         bool planes) {
        const cpu::Pixels in = pixels(image);
        expect_numbers(mean, in);
        expect_numbers(std, in);
        if (planes) {
          expect_shape(out, in.channels, in.height, in.width);
        } else {
          expect_shape(out, in.height, in.width, in.channels);
        }
        const nb::gil_scoped_release release;
        (planes ? MGE_DISPATCH(normalize_planes) : MGE_DISPATCH(normalize_pixels))(
            in, mean.data(), std.data(), out.data());
      },
      nb::arg("image"), nb::arg("mean"), nb::arg("std"), nb::arg("out").noconvert(),
      nb::arg("planes"), "out = (image - mean) / std, as (channels, height, width) if `planes`.");
  m.def(
      "pixel_planes",
      [](const Image& image, const Out<std::uint8_t>& out) {
        const cpu::Pixels in = pixels(image);
        expect_shape(out, in.channels, in.height, in.width);
        const nb::gil_scoped_release release;
        MGE_DISPATCH(copy_planes)(in, out.data());
      },
      nb::arg("image"), nb::arg("out").noconvert(), "out = image, as (channels, height, width).");
  m.def(
      "mix_pixels",
      [](const Image& image, float share, const Numbers& offset, float grey,
         const Out<std::uint8_t>& out) {
        const cpu::Pixels in = pixels(image);
        expect_numbers(offset, in);
        expect_shape(out, in.height, in.width, in.channels);
        expect(grey == 0 || in.channels == 3, "pixels: expected 3 channels");
        const nb::gil_scoped_release release;
        if (grey != 0) {
          MGE_DISPATCH(mix_grey)(in, share, grey, out.data());
        } else {
          MGE_DISPATCH(mix_constant)(in, share, offset.data(), out.data());
        }
      },
      nb::arg("image"), nb::arg("share"), nb::arg("offset"), nb::arg("grey"),
      nb::arg("out").noconvert(),
      "out = image * share + offset, or image * share + (grey image) * grey where that is not 0, "
      "brought into [0, 255] and cut.");
}

}  // namespace mge::py
