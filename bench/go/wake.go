// Go's side of `wake`, where both wait. Used by main.go. The thread outside is a goroutine that is locked to a thread.
package main

func wake(n int) span {
	there, back := make(chan int, 1), make(chan int, 1)
	result := make(chan span)
	go func() {
		for number := range there {
			back <- number
		}
	}()
	go func() {
		bindToCPU(0)
		there <- 0
		check(<-back, 0)
		watch := start()
		for number := range n {
			there <- number
			check(<-back, number)
		}
		s := watch.stop(n)
		close(there)
		result <- s
	}()
	return <-result
}
