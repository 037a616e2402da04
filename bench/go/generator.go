package main

import "iter"

type node struct {
	left  *node
	value int
	right *node
}

func completeTree(depth int, last *int) *node {
	if depth == 0 {
		return nil
	}
	n := &node{left: completeTree(depth-1, last)}
	*last++
	n.value = *last
	n.right = completeTree(depth-1, last)
	return n
}

func (n *node) walk(yield func(int) bool) bool {
	return n == nil || n.left.walk(yield) && yield(n.value) && n.right.walk(yield)
}

// generator asks for n elements of the tree, in order.
func generator(depth int) func(n int) span {
	size := 0
	tree := completeTree(depth, &size)
	walk := func(yield func(int) bool) { tree.walk(yield) }
	return func(n int) span {
		asked, sum := 0, 0
		watch := start()
		next, stop := iter.Pull(walk)
		for asked < n {
			value, ok := next()
			if !ok {
				next, stop = iter.Pull(walk)
				continue
			}
			sum += value
			asked++
		}
		s := watch.stop(n)
		stop()
		below := func(last int) int { return last * (last + 1) / 2 }
		check(sum, n/size*below(size)+below(n%size))
		return s
	}
}
