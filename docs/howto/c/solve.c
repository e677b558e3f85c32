/* Solves a batch that Solver.export() wrote: ./solve FOLDER [PLATFORM [DEVICE]] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl.h"

enum { MOST = 256 }; /* buffers, kernels, characters of a name or a path */
static struct { char name[MOST]; size_t bytes; char *values; cl_mem memory; } buffers[MOST];
static int num_buffers, is_double;
static char word[MOST], *rest; /* of manifest.json, whose keys come in a fixed order */

static void check(int error, const char *what)
{
    if (error) fprintf(stderr, "%s: error %d\n", what, error), exit(1);
}

static char *contents(const char *folder, const char *name, size_t *size)
{
    char path[2 * MOST], *data = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) perror(path), exit(1);
    *size = (size_t)ftell(file);
    rewind(file);
    data = calloc(*size + 1, 1);
    check(!data || fread(data, 1, *size, file) != *size, path);
    fclose(file);
    return data;
}

static char *next(void) /* the next number, text, [ or ] */
{
    rest += strspn(rest, " \r\n\t{}:,");
    size_t length = *rest == '"' ? strcspn(++rest, "\"") : strcspn(rest, " \r\n\t{}:,[]");
    if (!length && (*rest == '[' || *rest == ']')) length = 1;
    check(length >= MOST, "a long word in manifest.json");
    memcpy(word, rest, length);
    word[length] = 0;
    rest += length + (rest[length] == '"');
    return word;
}

static char *value(const char *key) { check(strcmp(next(), key), key); return next(); }
static size_t number(const char *key) { return strtoul(value(key), NULL, 10); }

static int buffer(const char *name)
{
    int k = 0;
    while (k < num_buffers && strcmp(buffers[k].name, name)) ++k;
    return k;
}

static double get(const char *a, size_t i) { return is_double ? ((double *)a)[i] : ((float *)a)[i]; }

static void set(char *a, size_t i, double x)
{
    if (is_double) ((double *)a)[i] = x;
    else ((float *)a)[i] = (float)x;
}

static int is(cl_device_id device, cl_uint property, const char *key) /* that of the manifest */
{
    char text[MOST] = "";
    clGetDeviceInfo(device, property, MOST, text, NULL);
    return !strcmp(value(key), text);
}

static cl_kernel build(cl_context context, cl_device_id device, const char *folder, int alike)
{
    cl_int error = 1, ignored;
    size_t size;
    char source[MOST], binary[MOST], log[4096] = "";
    strcpy(source, value("source")), strcpy(binary, value("binary"));
    cl_program program = NULL;
    if (*binary && alike) { /* another device or driver may crash with it */
        const unsigned char *code = (unsigned char *)contents(folder, binary, &size);
        program = clCreateProgramWithBinary(context, 1, &device, &size, &code, &ignored, &error);
        if (!error) error = clBuildProgram(program, 1, &device, "", NULL, NULL);
    }
    if (error) {
        const char *code = contents(folder, source, &size);
        program = clCreateProgramWithSource(context, 1, &code, &size, &error);
        check(error, "clCreateProgramWithSource");
        error = clBuildProgram(program, 1, &device, "", NULL, NULL);
        if (error) clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 4096, log, NULL);
        check(error, *log ? log : "clBuildProgram");
    }
    cl_kernel kernel = clCreateKernel(program, value("function"), &error);
    check(error, "clCreateKernel");
    return kernel;
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : ".";
    cl_uint which = argc > 2 ? (cl_uint)atoi(argv[2]) : 0, count;
    cl_uint one = argc > 3 ? (cl_uint)atoi(argv[3]) : 0;
    cl_platform_id platforms[16];
    cl_device_id devices[16];
    cl_int error;
    size_t size;
    check(clGetPlatformIDs(16, platforms, &count), "clGetPlatformIDs");
    check(which >= count || which > 15, "no such platform");
    check(clGetDeviceIDs(platforms[which], CL_DEVICE_TYPE_ALL, 16, devices, &count), "devices");
    check(one >= count || one > 15, "no such device");
    cl_context context = clCreateContext(NULL, 1, &devices[one], NULL, NULL, &error);
    check(error, "clCreateContext");
    cl_command_queue queue = clCreateCommandQueue(context, devices[one], 0, &error);
    check(error, "clCreateCommandQueue");

    rest = contents(folder, "manifest.json", &size);
    check(number("format") != 1, "the format of manifest.json");
    value("clhines"), value("method");
    int alike = is(devices[one], CL_DEVICE_NAME, "device");
    alike &= is(devices[one], CL_DRIVER_VERSION, "driver");
    is_double = !strcmp(value("real"), "double");
    size_t cells = number("cells"), nodes = number("nodes"), values = number("values");

    value("buffers");
    for (; *next() != ']'; ++num_buffers) { /* "name" */
        check(num_buffers == MOST, "too many buffers");
        strcpy(buffers[num_buffers].name, next());
        buffers[num_buffers].bytes = number("bytes");
        buffers[num_buffers].values = *value("file") ? contents(folder, word, &size)
                                                     : calloc(buffers[num_buffers].bytes, 1);
        check(*word && size != buffers[num_buffers].bytes, word);
    }
    /* the system: in device order, packed[i] = natural[gather[i]] */
    const int *parent = (int *)buffers[buffer("parent")].values;
    const int *gather = (int *)buffers[buffer("gather")].values;
    char *d = buffers[buffer("d")].values, *u = buffers[buffer("u")].values;
    char *b = buffers[buffer("b")].values;
    char *l = buffer("l") < num_buffers ? buffers[buffer("l")].values : NULL;
    double *diagonal = calloc(nodes, 8), *left = calloc(nodes, 8), *x = calloc(nodes, 8), worst = 0;
    for (size_t i = 0; i < nodes; ++i) {
        diagonal[i] += 3 + (double)(i % 5);
        if (parent[i] >= 0) diagonal[parent[i]] += 1;
    }
    for (size_t i = 0; i < values; ++i) {
        if (gather[i] < 0) continue;
        set(d, i, diagonal[gather[i]]), set(u, i, -1.0), set(b, i, gather[i] % 7 - 3);
        if (l) set(l, i, -0.5);
    }
    for (int k = 0; k < num_buffers; ++k) {
        buffers[k].memory = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                           buffers[k].bytes, buffers[k].values, &error);
        check(error, buffers[k].name);
    }
    cl_kernel kernels[MOST];
    value("kernels");
    for (int k = 0; *(rest += strspn(rest, " \r\n\t{,}")) != ']'; ++k)
        check(k == MOST, "too many kernels"), kernels[k] = build(context, devices[one], folder, alike);
    next();

    value("launches");
    while (*next() != ']') { /* "kernel" */
        cl_kernel kernel = kernels[atoi(next())];
        size_t items = number("items"), group = number("group");
        value("arguments");
        for (cl_uint k = 0; *next() != ']'; ++k) {
            int found = buffer(word), integer = atoi(word);
            error = found < num_buffers ? clSetKernelArg(kernel, k, sizeof(cl_mem), &buffers[found].memory)
                                        : clSetKernelArg(kernel, k, sizeof integer, &integer);
            check(error, word);
        }
        check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &group, 0, NULL, NULL), "launch");
    }
    int result = buffer("x"), status = buffer("status");
    char *packed = buffers[result].values;
    int *pivots = (int *)buffers[status].values;
    error = clEnqueueReadBuffer(queue, buffers[result].memory, CL_TRUE, 0, buffers[result].bytes,
                                packed, 0, NULL, NULL);
    check(error, "x");
    error = clEnqueueReadBuffer(queue, buffers[status].memory, CL_TRUE, 0, buffers[status].bytes,
                                pivots, 0, NULL, NULL);
    check(error, "status");
    for (size_t c = 0; c < cells; ++c) check(pivots[c], "a pivot");

    for (size_t i = 0; i < values; ++i)
        if (gather[i] >= 0) x[gather[i]] = get(packed, i);
    for (size_t i = 0; i < nodes; ++i) { /* what is left of b after A x */
        left[i] += (int)(i % 7) - 3 - diagonal[i] * x[i];
        if (parent[i] >= 0) left[i] += (l ? 0.5 : 1) * x[parent[i]], left[parent[i]] += x[i];
    }
    for (size_t i = 0; i < nodes; ++i) worst = fmax(worst, fabs(left[i]));
    printf("%zu cells, %zu nodes, residual %.1e\n", cells, nodes, worst);
    return !(worst < (is_double ? 1e-13 : 1e-4));
}
