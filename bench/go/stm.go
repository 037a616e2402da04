// Go's side of `stm`: one mutex around all the data. Used by main.go.
package main

import (
	"sync"
	"sync/atomic"
)

const balance = 1000

type random uint64

// The numbers that all contestants draw.
func (r *random) below(n int) int {
	*r = *r*6364136223846793005 + 1442695040888963407
	return int(uint64(*r>>33) % uint64(n))
}

type accounts struct {
	lock     sync.Mutex
	balances []int
}

func newAccounts(count int) *accounts {
	a := &accounts{balances: make([]int, count)}
	for i := range a.balances {
		a.balances[i] = balance
	}
	return a
}

func (a *accounts) transfer(r *random) {
	from := r.below(len(a.balances))
	to := (from + 1 + r.below(len(a.balances)-1)) % len(a.balances)
	a.lock.Lock()
	a.balances[from]--
	a.balances[to]++
	a.lock.Unlock()
}

func (a *accounts) scan() {
	sum := 0
	a.lock.Lock()
	for _, b := range a.balances {
		sum += b
	}
	a.lock.Unlock()
	check(sum, balance*len(a.balances))
}

func onWorkers(workers, n int, body func(worker, n int)) span {
	each := (n + workers - 1) / workers
	var all sync.WaitGroup
	all.Add(workers)
	watch := start()
	for worker := range workers {
		go func() {
			defer all.Done()
			body(worker, each)
		}()
	}
	all.Wait()
	return watch.stop(workers * each)
}

func transactions() func(int) span {
	switch argument(2) {
	case "read":
		count := number(argument(3))
		return func(n int) span {
			a := newAccounts(count)
			return onWorkers(1, n, func(_, n int) {
				for range n {
					a.scan()
				}
			})
		}
	case "bank":
		workers, count := number(argument(3)), number(argument(4))
		return func(n int) span {
			a := newAccounts(count)
			s := onWorkers(workers, n, func(worker, n int) {
				r := random(worker)
				for range n {
					a.transfer(&r)
				}
			})
			a.scan()
			return s
		}
	case "map":
		workers := number(argument(3))
		return func(n int) span { return lockedMap(workers, n) }
	case "queue":
		workers := number(argument(3))
		return func(n int) span { return lockedQueue(workers, n) }
	case "ping":
		workers := number(argument(3))
		return func(n int) span { return lockedPing(workers, n) }
	case "scan", "transfer":
		scans, beside, count := argument(2) == "scan", argument(3) == "beside", number(argument(4))
		return func(n int) span {
			a := newAccounts(count)
			r := random(1)
			measured, other := a.scan, func() { a.transfer(&r) }
			if !scans {
				measured, other = other, measured
			}
			return scanned(n, beside, measured, other)
		}
	}
	fail("no such variant")
	return nil
}

func scanned(n int, beside bool, measured, other func()) span {
	var over atomic.Bool
	var all sync.WaitGroup
	all.Add(1)
	go func() {
		defer all.Done()
		bindToCPU(1)
		for beside && !over.Load() {
			other()
		}
	}()
	result := make(chan span)
	go func() {
		bindToCPU(0)
		watch := start()
		for range n {
			measured()
		}
		s := watch.stop(n)
		over.Store(true)
		result <- s
	}()
	s := <-result
	all.Wait()
	return s
}

func lockedMap(workers, n int) span {
	const keys = 1000
	var lock sync.Mutex
	numbers := map[int]int{}
	for key := 0; key < keys; key += 2 {
		numbers[key] = key
	}
	var inside atomic.Int64
	inside.Store(keys / 2)
	s := onWorkers(workers, n, func(worker, n int) {
		r := random(worker)
		for range n {
			key, what := r.below(keys), r.below(20)
			lock.Lock()
			value, found := numbers[key]
			switch {
			case what == 0:
				numbers[key] = key
				if !found {
					inside.Add(1)
				}
			case what == 1:
				delete(numbers, key)
				if found {
					inside.Add(-1)
				}
			case found:
				check(value, key)
			}
			lock.Unlock()
		}
	})
	check(len(numbers), int(inside.Load()))
	return s
}

// Runs both sides, of which the first measures; on two workers each is locked to a thread.
func sides(workers int, first func() span, second func()) span {
	result := make(chan span)
	go func() {
		if workers == 2 {
			bindToCPU(1)
		}
		second()
	}()
	go func() {
		if workers == 2 {
			bindToCPU(0)
		}
		result <- first()
	}()
	return <-result
}

func lockedQueue(workers, n int) span {
	const room = 64
	var lock sync.Mutex
	changed := sync.NewCond(&lock)
	var ring [room]int
	begin, length := 0, 0
	put := func(number int) {
		lock.Lock()
		for length == room {
			changed.Wait()
		}
		ring[(begin+length)%room] = number
		length++
		lock.Unlock()
		changed.Broadcast()
	}
	take := func() int {
		lock.Lock()
		for length == 0 {
			changed.Wait()
		}
		number := ring[begin]
		begin = (begin + 1) % room
		length--
		lock.Unlock()
		changed.Broadcast()
		return number
	}
	return sides(workers, func() span {
		take()
		sum := 0
		watch := start()
		for range n {
			sum += take()
		}
		s := watch.stop(n)
		check(sum, n*(n-1)/2)
		return s
	}, func() {
		put(0)
		for number := range n {
			put(number)
		}
	})
}

type place struct {
	lock    sync.Mutex
	changed *sync.Cond
	number  int
	full    bool
}

func newPlace() *place {
	p := &place{}
	p.changed = sync.NewCond(&p.lock)
	return p
}

func (p *place) put(number int) {
	p.lock.Lock()
	for p.full {
		p.changed.Wait()
	}
	p.number, p.full = number, true
	p.lock.Unlock()
	p.changed.Broadcast()
}

func (p *place) take() int {
	p.lock.Lock()
	for !p.full {
		p.changed.Wait()
	}
	number := p.number
	p.full = false
	p.lock.Unlock()
	p.changed.Broadcast()
	return number
}

func lockedPing(workers, n int) span {
	there, back := newPlace(), newPlace()
	return sides(workers, func() span {
		sum := 0
		watch := start()
		for number := range n {
			there.put(number)
			sum += back.take()
		}
		s := watch.stop(n)
		check(sum, n*(n+1)/2)
		return s
	}, func() {
		for range n {
			back.put(there.take() + 1)
		}
	})
}
