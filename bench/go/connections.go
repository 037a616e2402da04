// Go's side of `connections`. Used by main.go.
package main

//go:noinline
func useStack(meanwhile func()) byte {
	var used [32 << 10]byte
	for i := 0; i < len(used); i += 4096 {
		used[i] = 1
	}
	if meanwhile != nil {
		meanwhile()
	}
	return used[uint(len(rivalName))%uint(len(used))]
}

// Its length is no constant, so that what is read of the stack is not known either.
var rivalName = "connections"

type connection struct{ gate, end chan struct{} }

func newConnection(over bool) connection {
	c := connection{make(chan struct{}, 1), make(chan struct{}, 1)}
	go func() {
		wait := func() { <-c.gate }
		if over {
			useStack(wait)
		} else {
			wait()
			useStack(nil)
		}
		c.end <- struct{}{}
	}()
	return c
}

func (c connection) finish() {
	c.gate <- struct{}{}
	<-c.end
}

func connections(over bool, alive, n int) span {
	waiting := make([]connection, alive)
	for i := range waiting {
		waiting[i] = newConnection(over)
	}
	turn := func() {
		for i := range waiting {
			waiting[i].finish()
			waiting[i] = newConnection(over)
		}
	}
	turn()
	turn()
	turns := (n + alive - 1) / alive
	watch := start()
	for range turns {
		turn()
	}
	s := watch.stop(turns * alive)
	for _, c := range waiting {
		c.finish()
	}
	return s
}
