// Go's side of `channel` and `select`. Used by main.go.
package main

import (
	"runtime"
	"sync"
)

// Senders and receivers with a channel between them.
func channel(room, senders, receivers, n int) span {
	between := make(chan int, room)
	share := (n + senders - 1) / senders
	sums := make(chan int, receivers)
	var sent sync.WaitGroup
	sent.Add(senders)
	watch := start()
	for range receivers {
		go func() {
			sum := 0
			for number := range between {
				sum += number
			}
			sums <- sum
		}()
	}
	for range senders {
		go func() {
			for number := range share {
				between <- number
			}
			sent.Done()
		}()
	}
	sent.Wait()
	close(between)
	sum := 0
	for range receivers {
		sum += <-sums
	}
	s := watch.stop(senders * share)
	check(sum, senders*(share*(share-1)/2))
	return s
}

// One of each, locked to threads.
func channelApart(room, n int) span {
	between := make(chan int, room)
	result := make(chan span)
	go func() {
		bindToCPU(1)
		between <- 0
		for number := range n {
			between <- number
		}
		close(between)
	}()
	go func() {
		bindToCPU(0)
		<-between
		sum := 0
		watch := start()
		for number := range between {
			sum += number
		}
		s := watch.stop(n)
		check(sum, n*(n-1)/2)
		result <- s
	}()
	return <-result
}

func receiveOf2(c []chan int) int {
	select {
	case number := <-c[0]:
		return number
	case number := <-c[1]:
		return number
	}
}

func receiveOf8(c []chan int) int {
	select {
	case number := <-c[0]:
		return number
	case number := <-c[1]:
		return number
	case number := <-c[2]:
		return number
	case number := <-c[3]:
		return number
	case number := <-c[4]:
		return number
	case number := <-c[5]:
		return number
	case number := <-c[6]:
		return number
	case number := <-c[7]:
		return number
	}
}

func selecting(arms int) (func([]chan int) int, []chan int) {
	channels := make([]chan int, arms)
	for i := range channels {
		channels[i] = make(chan int, 1)
	}
	switch arms {
	case 2:
		return receiveOf2, channels
	case 8:
		return receiveOf8, channels
	}
	fail("no such number of arms")
	return nil, nil
}

func selectReady(arms, n int) span {
	receive, channels := selecting(arms)
	sum := 0
	watch := start()
	for i := range n {
		channels[i%arms] <- i
		sum += receive(channels)
	}
	s := watch.stop(n)
	check(sum, n*(n-1)/2)
	return s
}

func selectWaiting(arms, n int) span {
	receive, channels := selecting(arms)
	answers := make(chan int, 1)
	result := make(chan span)
	go func() {
		for range n {
			answers <- receive(channels)
		}
	}()
	go func() {
		sum := 0
		watch := start()
		for i := range n {
			channels[i%arms] <- i
			sum += <-answers
		}
		s := watch.stop(n)
		check(sum, n*(n-1)/2)
		result <- s
	}()
	return <-result
}

// Two that both would send or receive, over two channels without room.
func selectBoth(n int, apart bool) span {
	there, back := make(chan int), make(chan int)
	side := func(out, in chan int) int {
		sum := 0
		for i := range n {
			select {
			case out <- i:
			case <-in:
			}
			sum++
		}
		return sum
	}
	result := make(chan span)
	go func() {
		if apart {
			bindToCPU(1)
		} else {
			runtime.Gosched()
		}
		check(side(back, there), n)
	}()
	go func() {
		if apart {
			bindToCPU(0)
		}
		watch := start()
		check(side(there, back), n)
		result <- watch.stop(n)
	}()
	return <-result
}
