/* OpenCL's header or, where that is not installed, the declarations that the programs use. */
#ifndef CLHINES_OPENCL_H
#define CLHINES_OPENCL_H
#if defined(__has_include)
#if __has_include(<CL/cl.h>)
#define HAS_HEADER
#endif
#endif
#ifdef HAS_HEADER
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#else
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
typedef struct platform *cl_platform_id;
typedef struct device *cl_device_id;
typedef struct context *cl_context;
typedef struct queue *cl_command_queue;
typedef struct program *cl_program;
typedef struct kernel *cl_kernel;
typedef struct memory *cl_mem;
typedef struct event *cl_event;
typedef int32_t cl_int;
typedef uint32_t cl_uint, cl_bool;
typedef uint64_t cl_ulong;
#define CL_TRUE 1
#define CL_MEM_READ_WRITE 1
#define CL_MEM_COPY_HOST_PTR 32
#define CL_DEVICE_TYPE_ALL 0xFFFFFFFFu
#define CL_DEVICE_NAME 0x102B
#define CL_DRIVER_VERSION 0x102D
#define CL_PROGRAM_BUILD_LOG 0x1183
cl_int clGetPlatformIDs(cl_uint, cl_platform_id *, cl_uint *);
cl_int clGetDeviceIDs(cl_platform_id, cl_ulong, cl_uint, cl_device_id *, cl_uint *);
cl_int clGetDeviceInfo(cl_device_id, cl_uint, size_t, void *, size_t *);
cl_context clCreateContext(const intptr_t *, cl_uint, const cl_device_id *,
                           void (*)(const char *, const void *, size_t, void *), void *, cl_int *);
cl_command_queue clCreateCommandQueue(cl_context, cl_device_id, cl_ulong, cl_int *);
cl_program clCreateProgramWithSource(cl_context, cl_uint, const char **, const size_t *, cl_int *);
cl_program clCreateProgramWithBinary(cl_context, cl_uint, const cl_device_id *, const size_t *,
                                     const unsigned char **, cl_int *, cl_int *);
cl_int clBuildProgram(cl_program, cl_uint, const cl_device_id *, const char *,
                      void (*)(cl_program, void *), void *);
cl_int clGetProgramBuildInfo(cl_program, cl_device_id, cl_uint, size_t, void *, size_t *);
cl_kernel clCreateKernel(cl_program, const char *, cl_int *);
cl_mem clCreateBuffer(cl_context, cl_ulong, size_t, void *, cl_int *);
cl_int clSetKernelArg(cl_kernel, cl_uint, size_t, const void *);
cl_int clEnqueueNDRangeKernel(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *,
                              const size_t *, cl_uint, const cl_event *, cl_event *);
cl_int clEnqueueReadBuffer(cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint,
                           const cl_event *, cl_event *);
#ifdef __cplusplus
}
#endif
#endif
#endif
