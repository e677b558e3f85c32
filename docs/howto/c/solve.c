/* Solves the systems of export.py on a queue of its own, and checks what comes out. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#if __has_include(<CL/cl.h>)
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#else /* what is needed of it, where the headers of OpenCL are not installed */
typedef struct object *cl_platform_id, *cl_device_id, *cl_context, *cl_command_queue, *cl_program,
    *cl_kernel, *cl_mem, *cl_event;
typedef int32_t cl_int;
typedef uint32_t cl_uint, cl_bool;
typedef uint64_t cl_ulong;
enum { CL_TRUE = 1, CL_MEM_READ_WRITE = 1, CL_MEM_COPY_HOST_PTR = 32 };
#define CL_DEVICE_TYPE_ALL 0xFFFFFFFFu
cl_int clGetPlatformIDs(cl_uint, cl_platform_id *, cl_uint *);
cl_int clGetDeviceIDs(cl_platform_id, cl_ulong, cl_uint, cl_device_id *, cl_uint *);
cl_context clCreateContext(const intptr_t *, cl_uint, const cl_device_id *, void *, void *,
                           cl_int *);
cl_command_queue clCreateCommandQueue(cl_context, cl_device_id, cl_ulong, cl_int *);
cl_program clCreateProgramWithSource(cl_context, cl_uint, const char **, const size_t *, cl_int *);
cl_int clBuildProgram(cl_program, cl_uint, const cl_device_id *, const char *, void *, void *);
cl_kernel clCreateKernel(cl_program, const char *, cl_int *);
cl_mem clCreateBuffer(cl_context, cl_ulong, size_t, void *, cl_int *);
cl_int clSetKernelArg(cl_kernel, cl_uint, size_t, const void *);
cl_int clEnqueueNDRangeKernel(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *,
                              const size_t *, cl_uint, const cl_event *, cl_event *);
cl_int clEnqueueReadBuffer(cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint,
                           const cl_event *, cl_event *);
#endif

static cl_context context;
static cl_kernel kernel;
static cl_uint argument;

static void check(cl_int error, const char *what)
{
    if (error) {
        fprintf(stderr, "%s: OpenCL error %d\n", what, error);
        exit(1);
    }
}

static void *bytes(FILE *file, size_t size)
{
    void *data = calloc(size + 1, 1);
    if (!data || fread(data, 1, size, file) != size) {
        fprintf(stderr, "a file is too short: run export.py\n");
        exit(1);
    }
    return data;
}

static int32_t *numbers(FILE *file, int32_t *count)
{
    int32_t *size = bytes(file, sizeof(int32_t));
    *count = *size;
    return bytes(file, *count * sizeof(int32_t));
}

static cl_mem give(void *data, size_t size) /* the next argument of the kernel, a new buffer */
{
    cl_int error;
    cl_mem memory =
        clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, size, data, &error);
    check(error, "clCreateBuffer");
    check(clSetKernelArg(kernel, argument++, sizeof memory, &memory), "clSetKernelArg");
    return memory;
}

int main(void)
{
    cl_int error;
    cl_platform_id platform;
    cl_device_id device;
    check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    check(error, "clCreateContext");
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &error);
    check(error, "clCreateCommandQueue");

    FILE *code = fopen("solve.cl", "rb"), *file = fopen("solve.bin", "rb");
    if (!code || !file || fseek(code, 0, SEEK_END)) {
        fprintf(stderr, "no solve.cl or solve.bin here: run export.py\n");
        return 1;
    }
    size_t length = ftell(code);
    rewind(code);
    const char *source = bytes(code, length);
    cl_program program = clCreateProgramWithSource(context, 1, &source, &length, &error);
    check(error, "clCreateProgramWithSource");
    check(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
    kernel = clCreateKernel(program, "solve", &error);
    check(error, "clCreateKernel");

    int32_t *head = bytes(file, 7 * sizeof(int32_t)), count, zero = 0;
    int32_t n = head[0], packed = head[1], cells = head[2];
    int32_t *parent = numbers(file, &count), *gather = numbers(file, &count);
    double *d = calloc(packed, 8), *u = calloc(packed, 8), *b = calloc(packed, 8);
    for (int32_t i = 0; i < packed; ++i) /* gather[i]: the node whose values are at i, -1: padding */
        d[i] = 3.0 + (gather[i] >= 0 ? gather[i] % 5 : 0), u[i] = -1.0, b[i] = gather[i] % 7 - 3.0;

    check(clSetKernelArg(kernel, argument++, sizeof(int32_t), &head[3]), "units");
    check(clSetKernelArg(kernel, argument++, sizeof(int32_t), &packed), "values");
    check(clSetKernelArg(kernel, argument++, sizeof(int32_t), &zero), "first row");
    for (int32_t k = 0; k < head[6]; ++k) {
        int32_t *table = numbers(file, &count);
        give(table, count * sizeof(int32_t));
    }
    double *x = calloc(packed, 8), *node = calloc(n, 8), *rest = calloc(n, 8);
    give(d, packed * 8), give(u, packed * 8), give(b, packed * 8), give(x, packed * 8);
    cl_mem found = give(x, packed * 8);
    int32_t *status = calloc(cells, sizeof(int32_t));
    cl_mem pivots = give(status, cells * sizeof(int32_t));

    size_t group = head[5], items = head[4] * group;
    check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &group, 0, NULL, NULL), "solve");
    check(clEnqueueReadBuffer(queue, found, CL_TRUE, 0, packed * 8, x, 0, NULL, NULL), "x");
    check(clEnqueueReadBuffer(queue, pivots, CL_TRUE, 0, cells * sizeof(int32_t), status, 0, NULL,
                              NULL), "status");

    double worst = 0; /* of b - A x, in natural order */
    for (int32_t i = 0; i < packed; ++i)
        if (gather[i] >= 0) node[gather[i]] = x[i];
    for (int32_t i = 0; i < n; ++i) {
        rest[i] += i % 7 - 3.0 - (3.0 + i % 5) * node[i];
        if (parent[i] >= 0) rest[i] += node[parent[i]], rest[parent[i]] += node[i];
    }
    for (int32_t i = 0; i < n; ++i) worst = fmax(worst, fabs(rest[i]));
    for (int32_t c = 0; c < cells; ++c) check(status[c], "a pivot");
    printf("%d cells, %d nodes, residual %.1e\n", cells, n, worst);
    return !(worst < 1e-13);
}
