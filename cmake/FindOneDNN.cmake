# Finds oneDNN >= 3.2: in the Python environment that the build runs in (the PyPI packages
# onednn-cpu-gomp and onednn-devel-cpu-gomp), or else wherever CMake finds one.
#
# Defines the target DNNL::dnnl, and ONEDNN_LIBRARY, the shared library to put into the package
# together with ONEDNN_LICENSES, its licence and those of what is in it.

execute_process(
  COMMAND
    "${Python_EXECUTABLE}" -c
    "import importlib.metadata as m
for f in m.files('onednn-devel-cpu-gomp') or ():
    if f.name == 'dnnl-config.cmake':
        print(f.locate().resolve().parent)"
  OUTPUT_VARIABLE _onednn_dir
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)

if(_onednn_dir)
  find_package(dnnl 3.2 CONFIG REQUIRED PATHS "${_onednn_dir}" NO_DEFAULT_PATH)
else()
  find_package(dnnl 3.2 CONFIG)
  if(NOT dnnl_FOUND)
    message(FATAL_ERROR "oneDNN >= 3.2 was not found. Install it into this Python environment: "
                        "pip install onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0")
  endif()
endif()

if(NOT DNNL_CPU_THREADING_RUNTIME STREQUAL "OMP")
  message(FATAL_ERROR "oneDNN must be built for OpenMP, so that it shares our threads; "
                      "${dnnl_DIR} is built for ${DNNL_CPU_THREADING_RUNTIME}")
endif()
get_target_property(_onednn_location DNNL::dnnl LOCATION)
file(REAL_PATH "${_onednn_location}" ONEDNN_LIBRARY)
file(GLOB ONEDNN_LICENSES "${dnnl_DIR}/../../../share/doc/onednn/LICENSE"
     "${dnnl_DIR}/../../../share/doc/onednn/THIRD-PARTY-PROGRAMS")
message(STATUS "oneDNN ${dnnl_VERSION}: ${ONEDNN_LIBRARY}")
