// Go's side of the workloads. It is started as `rival WORKLOAD [ARGUMENT...]` with GOMAXPROCS in the environment,
// reads numbers of operations from its input, one a line, and answers each with `operations cpu-ns wall-ns`.
// What is timed is what the Rust file of the same workload times.
package main

import (
	"bufio"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

type span struct {
	ops        int
	cpu, wall  time.Duration
	migrations int
}

type stopwatch struct {
	migrations map[string]int
	cpu        time.Duration
	wall       time.Time
}

func start() stopwatch { return stopwatch{migrations(), cpuTime(), time.Now()} }

func (w stopwatch) stop(ops int) span {
	wall := time.Since(w.wall)
	cpu, moves := cpuTime()-w.cpu, 0
	for thread, count := range migrations() {
		moves += count - w.migrations[thread]
	}
	return span{ops, cpu, wall, moves}
}

// How often the kernel has moved each thread to another CPU. Empty where it does not tell.
func migrations() map[string]int {
	found := map[string]int{}
	files, _ := filepath.Glob("/proc/self/task/*/sched")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for _, line := range strings.Split(string(text), "\n") {
			if name, count, ok := strings.Cut(line, ":"); ok && strings.HasPrefix(name, "se.nr_migrations") {
				found[file], _ = strconv.Atoi(strings.TrimSpace(count))
			}
		}
	}
	return found
}

// CPU time of the process, all threads: the garbage collector's work counts.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func argument(i int) string {
	if len(os.Args) <= i {
		fail("a missing argument")
	}
	return os.Args[i]
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		fail(fmt.Sprintf("%q is not a number above zero", text))
	}
	return n
}

func fail(why string) {
	fmt.Fprintln(os.Stderr, "rival:", why)
	os.Exit(2)
}

func check(got, expected int) {
	if got != expected {
		fail(fmt.Sprintf("got %d, expected %d", got, expected))
	}
}

func main() {
	var run func(n int) span
	switch argument(1) {
	case "serve":
		serve(argument(2))
		return
	case "switch":
		run = iterPull
	case "spawn_join":
		run = spawnJoin
	case "yield", "yield_cold":
		fibers := number(argument(2))
		run = func(n int) span { return yield(fibers, n) }
	case "ping_pong":
		switch argument(2) {
		case "promise":
			run = promise
		case "channel":
			run = pingPong
		default:
			fail("no such variant")
		}
	case "mvar":
		switch argument(2) {
		case "together":
			run = func(n int) span { return mvar(n, false) }
		case "apart":
			run = func(n int) span { return mvar(n, true) }
		default:
			fail("no such variant")
		}
	case "channel":
		room, err := strconv.Atoi(argument(3))
		if err != nil {
			fail("no such variant")
		}
		senders, receivers := number(argument(4)), number(argument(5))
		switch argument(2) {
		case "together":
			run = func(n int) span { return channel(room, senders, receivers, n) }
		case "apart":
			run = func(n int) span { return channelApart(room, n) }
		default:
			fail("no such variant")
		}
	case "select":
		switch argument(2) {
		case "ready":
			arms := number(argument(3))
			run = func(n int) span { return selectReady(arms, n) }
		case "waiting":
			arms := number(argument(3))
			run = func(n int) span { return selectWaiting(arms, n) }
		case "together":
			run = func(n int) span { return selectBoth(n, false) }
		case "apart":
			run = func(n int) span { return selectBoth(n, true) }
		default:
			fail("no such variant")
		}
	case "mutex":
		fibers := number(argument(2))
		switch argument(3) {
		case "hold":
			run = func(n int) span { return mutex(fibers, n, false) }
		case "yield":
			run = func(n int) span { return mutex(fibers, n, true) }
		default:
			fail("no such variant")
		}
	case "cancellation":
		percent, err := strconv.Atoi(argument(4))
		if err != nil {
			fail("no such variant")
		}
		producers, consumers := number(argument(2)), number(argument(3))
		run = func(n int) span {
			sum := span{}
			for sum.ops < n {
				s := cancellation(producers, consumers, percent)
				sum = span{sum.ops + s.ops, sum.cpu + s.cpu, sum.wall + s.wall, sum.migrations + s.migrations}
			}
			return sum
		}
	case "connections":
		over, alive := argument(2) == "over", number(argument(3))
		run = func(n int) span { return connections(over, alive, n) }
	case "generator":
		run = generator(number(argument(2)))
	case "fork_join":
		of := number(argument(2))
		run = func(n int) span { return forkJoin(of, n) }
	case "par_enter":
		steps := number(argument(2))
		run = func(n int) span { return parEnter(steps, n) }
	case "k_nucleotide":
		found := make([]int, 13)
		for i := range found {
			count, err := strconv.Atoi(argument(3 + i))
			if err != nil {
				fail("no count")
			}
			found[i] = count
		}
		run = kNucleotide(number(argument(2)), found)
	case "mandelbrot":
		hash, err := strconv.ParseUint(argument(3), 10, 64)
		if err != nil {
			fail("no hash")
		}
		run = mandelbrot(number(argument(2)), hash)
	case "spectral_norm":
		run = spectralNorm(number(argument(2)), argument(3), number(argument(4)))
	case "chameneos":
		run = chameneos
	case "primes_sieve":
		run = primesSieve(number(argument(2)), number(argument(3)), number(argument(4)))
	case "wake":
		run = wake
	case "stm":
		run = transactions()
	case "timers":
		switch argument(2) {
		case "withdrawn":
			pending, atLeast := number(argument(3)), number(argument(4))
			run = func(n int) span { return withdrawn(pending, atLeast, n) }
		case "fired":
			count, hold, spread := number(argument(3)), number(argument(4)), number(argument(5))
			run = func(n int) span { return fired(count, time.Duration(hold), time.Duration(spread), n) }
		default:
			fail("no such variant")
		}
	default:
		fail("no such workload")
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		s := run(number(lines.Text()))
		fmt.Println(s.ops, s.cpu.Nanoseconds(), s.wall.Nanoseconds(), fmt.Sprintf("migrations=%d", s.migrations))
	}
}

func iterPull(n int) span {
	next, stop := iter.Pull(func(yield func(int) bool) {
		for i := 1; yield(i); i++ {
		}
	})
	defer stop()
	next()
	sum := 0
	watch := start()
	for i := 0; i < n; i++ {
		word, _ := next()
		sum += word
	}
	s := watch.stop(n)
	check(sum, n*(n+3)/2)
	return s
}

func spawnJoin(n int) span {
	sum := 0
	watch := start()
	for i := 0; i < n; i++ {
		done := make(chan int, 1)
		go func() { done <- i }()
		sum += <-done
	}
	s := watch.stop(n)
	check(sum, n*(n-1)/2)
	return s
}

func yield(fibers, n int) span {
	turns := max(n/fibers, 4)
	var started atomic.Int64
	var all sync.WaitGroup
	var s span
	var stopped atomic.Bool
	all.Add(fibers)
	for range fibers {
		go func() {
			defer all.Done()
			last := started.Add(1) == int64(fibers)
			for started.Load() < int64(fibers) {
				runtime.Gosched()
			}
			watch := stopwatch{}
			if last {
				watch = start()
			}
			for range turns / 2 {
				runtime.Gosched()
			}
			if stopped.Load() {
				fail("the goroutines do not take turns")
			}
			for range turns - turns/2 {
				runtime.Gosched()
			}
			if last {
				s = watch.stop(fibers * turns)
				stopped.Store(true)
			}
		}()
	}
	all.Wait()
	return s
}

type message struct {
	number int
	reply  chan message // nil ends the game
}

func promise(n int) span {
	first := make(chan message, 1)
	result := make(chan span)
	go func() {
		from := first
		for {
			m := <-from
			if m.reply == nil {
				return
			}
			from = make(chan message, 1)
			m.reply <- message{m.number + 1, from}
		}
	}()
	go func() {
		to, sum := first, 0
		watch := start()
		for i := range n {
			reply := make(chan message, 1)
			to <- message{i, reply}
			answer := <-reply
			sum += answer.number
			to = answer.reply
		}
		s := watch.stop(n)
		to <- message{}
		check(sum, n*(n+1)/2)
		result <- s
	}()
	return <-result
}

func pingPong(n int) span {
	there, back := make(chan int, 1), make(chan int, 1)
	result := make(chan span)
	go func() {
		for number := range there {
			back <- number + 1
		}
	}()
	go func() {
		there <- 0
		sum := <-back - 1
		watch := start()
		for i := range n {
			there <- i
			sum += <-back
		}
		s := watch.stop(n)
		close(there)
		check(sum, n*(n+1)/2)
		result <- s
	}()
	return <-result
}

// Locks the goroutine to a thread, which ends with it, and binds that to one of the CPUs on which it may run.
func bindToCPU(which int) {
	runtime.LockOSThread()
	const bits = 8 * unsafe.Sizeof(uintptr(0))
	var allowed, one [1024 / bits]uintptr
	_, _, failed := syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(allowed), uintptr(unsafe.Pointer(&allowed)))
	if failed != 0 {
		return
	}
	for cpu := range 8 * unsafe.Sizeof(allowed) {
		if allowed[cpu/bits]&(1<<(cpu%bits)) == 0 {
			continue
		}
		if which == 0 {
			one[cpu/bits] = 1 << (cpu % bits)
			syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(one), uintptr(unsafe.Pointer(&one)))
			return
		}
		which--
	}
}

// Kept apart, both sides are locked to threads.
func mvar(n int, apart bool) span {
	place := make(chan int, 1)
	result := make(chan span)
	go func() {
		if apart {
			bindToCPU(1)
		}
		place <- 0
		for i := range n {
			place <- i
		}
	}()
	go func() {
		if apart {
			bindToCPU(0)
		}
		<-place
		sum := 0
		watch := start()
		for range n {
			sum += <-place
		}
		s := watch.stop(n)
		check(sum, n*(n-1)/2)
		result <- s
	}()
	return <-result
}

func mutex(fibers, n int, yielding bool) span {
	each := (n + fibers - 1) / fibers
	var lock sync.Mutex
	var all sync.WaitGroup
	count := 0
	watch := start()
	all.Add(fibers)
	for range fibers {
		go func() {
			defer all.Done()
			for range each {
				lock.Lock()
				if yielding {
					runtime.Gosched()
				}
				count++
				lock.Unlock()
			}
		}()
	}
	all.Wait()
	s := watch.stop(each * fibers)
	check(count, each*fibers)
	return s
}

func cancellation(producers, consumers, percent int) span {
	const items = 50_000
	place := make(chan int, 1)
	gate, result := make(chan struct{}), make(chan span)
	var arrived, all sync.WaitGroup
	var victims, others []chan struct{}
	member := func(i, count int, body func(done chan struct{})) {
		done := make(chan struct{})
		if count > 1 && (i+1)*percent/100 > i*percent/100 {
			victims = append(victims, done)
		} else {
			others = append(others, done)
		}
		arrived.Add(1)
		all.Add(1)
		go func() {
			defer all.Done()
			arrived.Done()
			<-gate
			body(done)
		}()
	}
	var watch stopwatch
	var received atomic.Int64
	for i := range consumers {
		member(i, consumers, func(done chan struct{}) {
			every := items / (len(victims) + 1)
			for {
				select {
				case <-place:
					count := int(received.Add(1))
					if count == items {
						result <- watch.stop(items)
					} else if count%every == 0 && count/every <= len(victims) {
						close(victims[count/every-1])
					}
				case <-done:
					return
				}
			}
		})
	}
	for i := range producers {
		member(i, producers, func(done chan struct{}) {
			for number := 0; ; number++ {
				select {
				case place <- number:
				case <-done:
					return
				}
			}
		})
	}
	arrived.Wait()
	watch = start()
	close(gate)
	s := <-result
	for _, done := range others {
		close(done)
	}
	all.Wait()
	return s
}

func fib(n int) int {
	if n < 2 {
		return n
	}
	left := make(chan int, 1)
	go func() { left <- fib(n - 1) }()
	right := fib(n - 2)
	return <-left + right
}

func forkJoin(of, n int) span {
	a, b := 0, 1 // fib(of), fib(of + 1)
	for range of {
		a, b = b, a+b
	}
	forks := b - 1
	times := max(n/forks, 1)
	watch := start()
	for range times {
		check(fib(of), a)
	}
	return watch.stop(times * forks)
}
