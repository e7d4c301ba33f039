/* A search tree that is built, measured and taken down; numbers sorted by halves; nested expressions: 20 calls deep.
   The argument is how often. */
#include <stdio.h>
#include <stdlib.h>

#define CALLED __attribute__((noinline)) static
enum { COUNT = 20000, FEW = 8, NESTING = 9 };

struct node {
    long key;
    struct node *left, *right;
};

CALLED long next_number(void) {
    static unsigned long state = 1;
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    return state >> 33;
}

CALLED struct node *insert(struct node *tree, long key) {
    if (!tree) {
        tree = calloc(1, sizeof *tree);
        tree->key = key;
    } else if (key < tree->key) {
        tree->left = insert(tree->left, key);
    } else {
        tree->right = insert(tree->right, key);
    }
    return tree;
}

CALLED long height(struct node *tree) {
    long left, right;
    if (!tree) return 0;
    left = height(tree->left);
    right = height(tree->right);
    return 1 + (left > right ? left : right);
}

CALLED void take_down(struct node *tree) {
    if (!tree) return;
    take_down(tree->left);
    take_down(tree->right);
    free(tree);
}

CALLED int compare(const void *one, const void *other) {
    long left = *(const long *)one, right = *(const long *)other;
    return (left > right) - (left < right);
}

CALLED long part(long *numbers, long count) {
    long pivot = numbers[count / 2], low = 0, high = count - 1;
    for (;; low++, high--) {
        while (numbers[low] < pivot) low++;
        while (numbers[high] > pivot) high--;
        if (low >= high) return high;
        long held = numbers[low];
        numbers[low] = numbers[high];
        numbers[high] = held;
    }
}

CALLED void sort_halves(long *numbers, long count) {
    if (count < FEW) {
        qsort(numbers, count, sizeof *numbers, compare);
        return;
    }
    long middle = part(numbers, count) + 1;
    sort_halves(numbers, middle);
    sort_halves(numbers + middle, count - middle);
}

CALLED long expression(int nesting);

CALLED long term(int nesting) { return nesting > 0 ? expression(nesting - 1) * 3 + expression(nesting - 1) : next_number(); }

CALLED long factor(int nesting) { return term(nesting) ^ term(nesting); }

CALLED long expression(int nesting) { return nesting > 0 ? factor(nesting - 1) + term(nesting - 1) : next_number(); }

int main(int argc, char **argv) {
    static long numbers[COUNT];
    long total = 0;
    for (long round = argc > 1 ? atol(argv[1]) : 1; round > 0; round--) {
        struct node *tree = NULL;
        for (int i = 0; i < COUNT; i++) tree = insert(tree, next_number());
        total += height(tree);
        take_down(tree);
        for (int i = 0; i < COUNT; i++) numbers[i] = next_number();
        sort_halves(numbers, COUNT);
        total += numbers[0] + expression(NESTING);
    }
    printf("%ld\n", total);
    return 0;
}
