// Exceptions through several frames with destructors, virtual calls, recursion.
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

struct Shape {
    virtual ~Shape() = default;
    virtual int area(int depth) const = 0;
};

struct Square : Shape {
    int side;
    explicit Square(int given) : side(given) {}
    int area(int depth) const override {
        if (depth == 0)
            throw std::runtime_error("bottom");
        std::string name(20 + depth, 'x');
        return area(depth - 1) + static_cast<int>(name.size());
    }
};

struct Disc : Shape {
    int area(int depth) const override { return depth * 3; }
};

int main() {
    std::vector<std::unique_ptr<Shape>> shapes;
    shapes.push_back(std::make_unique<Square>(3));
    shapes.push_back(std::make_unique<Disc>());
    int total = 0;
    for (int turn = 0; turn < 4; turn++)
        for (auto &shape : shapes) {
            try {
                total += shape->area(turn + 2);
            } catch (const std::exception &error) {
                total += error.what()[0];
            }
        }
    return total == 0;
}
