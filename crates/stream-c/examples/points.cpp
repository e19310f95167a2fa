// Writes a stream from C++: a structure for each record, as it is in memory.
#include "quipu_stream.h"
#include <cmath>
#include <cstdint>
#include <memory>

struct Point {
    double x, y;
    std::int32_t index;
};

struct CloseWriter {
    void operator()(quipu_writer *writer) const { quipu_writer_close(writer); }
};
struct CloseStream {
    void operator()(quipu_stream *stream) const { quipu_stream_close(stream); }
};

int main(int argc, char **argv)
{
    std::unique_ptr<quipu_writer, CloseWriter> writer(quipu_writer_open(argc > 1 ? argv[1] : "points.quipu", "points 1.0"));
    if (!writer)
        return 1;
    const quipu_field fields[] = {
        {"x", QUIPU_F64, offsetof(Point, x), QUIPU_ROLE_NONE, nullptr, 0},
        {"y", QUIPU_F64, offsetof(Point, y), QUIPU_ROLE_NONE, nullptr, 0},
        {"index", QUIPU_I32, offsetof(Point, index), QUIPU_ROLE_NONE, nullptr, 0}};
    const auto schema = quipu_schema(writer.get(), "point", fields, 3, sizeof(Point), nullptr);
    if (!schema)
        return 1;
    std::unique_ptr<quipu_stream, CloseStream> stream(quipu_stream_open(writer.get(), 0));
    for (std::int32_t n = -5; n < 5; n++) {
        const Point point{n * 0.5, std::abs(n * 0.5), n};
        if (quipu_row(stream.get(), schema, static_cast<std::uint64_t>(n + 5), &point, sizeof point) != 0)
            return 1;
    }
    return 0;
}
