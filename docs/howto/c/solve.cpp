// Solves a batch that Solver.export() wrote: ./solve FOLDER [PLATFORM [DEVICE]]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "opencl.h"

using Bytes = std::vector<char>;

static void check(bool bad, const std::string &what, int error = 0)
{
    if (bad) throw std::runtime_error(what + ": error " + std::to_string(error));
}

static Bytes contents(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot read " + path);
    return Bytes(std::istreambuf_iterator<char>(file), {});
}

struct Manifest { // read word by word: the keys come in a fixed order
    Bytes text;
    size_t at = 0;
    char peek() { while (std::strchr(" \r\n\t{}:,", text.at(at))) ++at; return text[at]; }
    std::string next() // a number, a text, [ or ]
    {
        const bool quoted = peek() == '"';
        const size_t begin = at += quoted;
        while (!std::strchr(quoted ? "\"" : " \r\n\t{}:,[]", text.at(at))) ++at;
        if (!quoted && at == begin) ++at;
        const std::string word(&text[begin], at - begin);
        at += quoted;
        return word;
    }
    std::string value(const std::string &key) { check(next() != key, key); return next(); }
    size_t number(const std::string &key) { return std::stoul(value(key)); }
};

struct Buffer { Bytes values; cl_mem memory; };

static bool is(cl_device_id device, cl_uint property, const std::string &text)
{
    char found[256] = "";
    clGetDeviceInfo(device, property, sizeof found, found, nullptr);
    return text == found;
}

static cl_kernel build(cl_context context, cl_device_id device, const std::string &folder, Manifest &in,
                       bool alike)
{
    const std::string source = in.value("source"), binary = in.value("binary");
    cl_program program = nullptr;
    cl_int error = 1, ignored;
    if (!binary.empty() && alike) { // another device or driver may crash with it
        const Bytes code = contents(folder + binary);
        const size_t size = code.size();
        auto *bytes = reinterpret_cast<const unsigned char *>(code.data());
        program = clCreateProgramWithBinary(context, 1, &device, &size, &bytes, &ignored, &error);
        if (!error) error = clBuildProgram(program, 1, &device, "", nullptr, nullptr);
    }
    if (error) {
        const Bytes code = contents(folder + source);
        const size_t size = code.size();
        const char *text = code.data();
        program = clCreateProgramWithSource(context, 1, &text, &size, &error);
        check(error, "clCreateProgramWithSource", error);
        error = clBuildProgram(program, 1, &device, "", nullptr, nullptr);
        char log[4096] = "";
        if (error)
            clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, nullptr);
        check(error, *log ? log : "clBuildProgram", error);
    }
    cl_kernel kernel = clCreateKernel(program, in.value("function").c_str(), &error);
    check(error, "clCreateKernel", error);
    return kernel;
}

template <class Real> static int solve(cl_context context, cl_command_queue queue, cl_device_id device,
                                       const std::string &folder, Manifest &in, bool alike)
{
    const size_t cells = in.number("cells"), nodes = in.number("nodes"), values = in.number("values");
    std::map<std::string, Buffer> buffers;
    for (in.value("buffers"); in.next() != "]";) { // "name"
        const std::string name = in.next();
        const size_t size = in.number("bytes");
        const std::string file = in.value("file");
        buffers[name].values = file.empty() ? Bytes(size) : contents(folder + file);
        check(buffers[name].values.size() != size, file);
    }
    auto array = [&](const char *name) { return reinterpret_cast<Real *>(buffers.at(name).values.data()); };
    auto table = [&](const char *name) { return reinterpret_cast<int *>(buffers.at(name).values.data()); };
    // the system: in device order, packed[i] = natural[gather[i]]
    const int *parent = table("parent"), *gather = table("gather");
    Real *d = array("d"), *u = array("u"), *b = array("b");
    Real *l = buffers.count("l") ? array("l") : nullptr;
    std::vector<double> diagonal(nodes), left(nodes), x(nodes);
    for (size_t i = 0; i < nodes; ++i) {
        diagonal[i] += 3 + double(i % 5);
        if (parent[i] >= 0) diagonal[size_t(parent[i])] += 1;
    }
    for (size_t i = 0; i < values; ++i) {
        if (gather[i] < 0) continue;
        d[i] = Real(diagonal[size_t(gather[i])]), u[i] = -1, b[i] = Real(gather[i] % 7 - 3);
        if (l) l[i] = Real(-0.5);
    }
    cl_int error;
    for (auto &[name, buffer] : buffers) {
        buffer.memory = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                       buffer.values.size(), buffer.values.data(), &error);
        check(error, name, error);
    }
    std::vector<cl_kernel> kernels;
    for (in.value("kernels"); in.peek() != ']';) 
        kernels.push_back(build(context, device, folder, in, alike));
    in.next();

    for (in.value("launches"); in.next() != "]";) { // "kernel"
        cl_kernel kernel = kernels.at(std::stoul(in.next()));
        const size_t items = in.number("items"), group = in.number("group");
        in.value("arguments");
        cl_uint k = 0;
        for (std::string word = in.next(); word != "]"; word = in.next(), ++k) {
            const auto found = buffers.find(word);
            const int number = std::atoi(word.c_str());
            error = found != buffers.end() ? clSetKernelArg(kernel, k, sizeof(cl_mem), &found->second.memory)
                                           : clSetKernelArg(kernel, k, sizeof number, &number);
            check(error, word, error);
        }
        error = clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &items, &group, 0, nullptr, nullptr);
        check(error, "launch", error);
    }
    for (const char *name : {"x", "status"}) {
        Buffer &buffer = buffers.at(name);
        error = clEnqueueReadBuffer(queue, buffer.memory, CL_TRUE, 0, buffer.values.size(),
                                    buffer.values.data(), 0, nullptr, nullptr);
        check(error, name, error);
    }
    for (size_t c = 0; c < cells; ++c) check(table("status")[c], "a pivot");
    for (size_t i = 0; i < values; ++i)
        if (gather[i] >= 0) x[size_t(gather[i])] = array("x")[i];
    double worst = 0;
    for (size_t i = 0; i < nodes; ++i) { // what is left of b after A x
        left[i] += double(i % 7) - 3 - diagonal[i] * x[i];
        if (parent[i] < 0) continue;
        left[i] += (l ? 0.5 : 1) * x[size_t(parent[i])];
        left[size_t(parent[i])] += x[i];
    }
    for (double value : left) worst = std::max(worst, std::fabs(value));
    std::printf("%zu cells, %zu nodes, residual %.1e\n", cells, nodes, worst);
    return !(worst < (sizeof(Real) == 8 ? 1e-13 : 1e-4));
}

int main(int argc, char **argv)
try {
    const std::string folder = std::string(argc > 1 ? argv[1] : ".") + "/";
    const cl_uint which = argc > 2 ? cl_uint(std::atoi(argv[2])) : 0;
    const cl_uint one = argc > 3 ? cl_uint(std::atoi(argv[3])) : 0;
    std::vector<cl_platform_id> platforms(16);
    std::vector<cl_device_id> devices(16);
    cl_uint count = 0;
    cl_int error = clGetPlatformIDs(16, platforms.data(), &count);
    check(error || which >= count, "clGetPlatformIDs", error);
    error = clGetDeviceIDs(platforms.at(which), CL_DEVICE_TYPE_ALL, 16, devices.data(), &count);
    check(error || one >= count, "clGetDeviceIDs", error);
    cl_context context = clCreateContext(nullptr, 1, &devices.at(one), nullptr, nullptr, &error);
    check(error, "clCreateContext", error);
    cl_command_queue queue = clCreateCommandQueue(context, devices.at(one), 0, &error);
    check(error, "clCreateCommandQueue", error);

    Manifest in{contents(folder + "manifest.json")};
    check(in.number("format") != 1, "the format of manifest.json");
    in.value("clhines"), in.value("method");
    bool alike = is(devices.at(one), CL_DEVICE_NAME, in.value("device"));
    alike &= is(devices.at(one), CL_DRIVER_VERSION, in.value("driver"));
    auto *run = in.value("real") == "double" ? solve<double> : solve<float>;
    return run(context, queue, devices.at(one), folder, in, alike);
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
