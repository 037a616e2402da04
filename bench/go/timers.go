// Go's side of `timers`. Used by main.go.
package main

import (
	"sync"
	"sync/atomic"
	"time"
)

// A time between zero and spread, another one for each number.
func scattered(number uint64, spread time.Duration) time.Duration {
	return time.Duration(number * 0x9e3779b97f4a7c15 % uint64(spread))
}

func withdrawn(pending, atLeast, n int) span {
	after := func(number int) *time.Timer {
		return time.NewTimer(30*time.Second + scattered(uint64(number), 10*time.Second))
	}
	n = max(n, atLeast)
	others := make([]*time.Timer, pending)
	for i := range others {
		others[i] = after(i)
	}
	watch := start()
	for i := range n {
		if !after(i).Stop() {
			fail("it is far ahead")
		}
	}
	s := watch.stop(n)
	for _, other := range others {
		other.Stop()
	}
	return s
}

func fired(count int, hold, spread time.Duration, n int) span {
	count = max(count, n)
	var begun atomic.Int64
	var all sync.WaitGroup
	all.Add(count)
	watch := start()
	for i := range count {
		go func() {
			defer all.Done()
			begun.Add(1)
			time.Sleep(hold + scattered(uint64(i), spread))
			check(int(begun.Load()), count)
		}()
	}
	all.Wait()
	return watch.stop(count)
}
