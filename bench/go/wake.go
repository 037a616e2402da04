// Go's side of `wake`. Used by main.go. The thread outside is a goroutine that is locked to a thread, on a P of its own; no goroutine of Go's is outside of its
// scheduler.
package main

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

func threadCPUTime() time.Duration {
	const clockThreadCPUTime = 3
	var t syscall.Timespec
	if _, _, failed := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockThreadCPUTime, uintptr(unsafe.Pointer(&t)), 0); failed != 0 {
		fail("no clock of the thread")
	}
	return time.Duration(t.Nano())
}

func wake(mode string, fibers int) func(int) span {
	// One P would leave no place for the thread beside the scheduler.
	runtime.GOMAXPROCS(2)
	send := mode == "send awake" || mode == "send asleep"
	pause := mode == "asleep" || mode == "send asleep"
	busy := mode == "awake" || mode == "send awake"
	return func(n int) span {
		var answers atomic.Int64
		var stop atomic.Bool
		back := make(chan int, 1)
		lines := make([]chan int, fibers)
		for i := range lines {
			lines[i] = make(chan int, 1)
			go func() {
				for number := range lines[i] {
					if mode == "wait" {
						back <- number
					} else {
						answers.Add(1)
					}
				}
			}()
		}
		if busy {
			go func() {
				for !stop.Load() {
					runtime.Gosched()
				}
			}()
		}
		result := make(chan span)
		go func() {
			bindToCPU(0)
			clock := func() time.Duration { return time.Duration(time.Now().UnixNano()) }
			if send {
				clock = threadCPUTime
			}
			rounds := (n + fibers - 1) / fibers
			timed := time.Duration(0)
			watch := start()
			for round := range rounds + 1 {
				if round == 1 {
					timed, watch = 0, start()
				}
				if pause {
					for paused := time.Now(); time.Since(paused) < 200*time.Microsecond; {
					}
				}
				var began time.Duration
				if pause || send {
					began = clock()
				}
				for _, line := range lines {
					line <- round
				}
				if send {
					timed += clock() - began
				}
				if mode == "wait" {
					check(<-back, round)
				} else {
					for answers.Load() < int64((round+1)*fibers) {
					}
				}
				if pause && !send {
					timed += clock() - began
				}
			}
			s := watch.stop(rounds * fibers)
			for _, line := range lines {
				close(line)
			}
			stop.Store(true)
			if send {
				s.cpu = timed
			} else if pause {
				s.cpu = time.Duration(float64(s.cpu) * float64(timed) / float64(s.wall))
				s.wall = timed
			}
			result <- s
		}()
		return <-result
	}
}
