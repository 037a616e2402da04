// Go's side of the five programs of "Composable Scheduler Activations for Haskell": `k_nucleotide`, `mandelbrot`, `spectral_norm`, `chameneos`, `primes_sieve`.
// Used by main.go. The kernels are translations of the Rust files'.
package main

import (
	"fmt"
	"math"
	"sync"
)

// As many runs as have about n operations.
func repeat(n, ops int, run func()) span {
	times := max(n/ops, 1)
	watch := start()
	for range times {
		run()
	}
	return watch.stop(times * ops)
}

// Runs a job for each number in a goroutine of its own.
func all[T any](count int, job func(int) T) []T {
	results := make([]T, count)
	var done sync.WaitGroup
	done.Add(count)
	for i := range count {
		go func() {
			defer done.Done()
			results[i] = job(i)
		}()
	}
	done.Wait()
	return results
}

func kNucleotide(size int, found []int) func(int) span {
	seed := 42
	random := func() float64 {
		seed = (seed*3877 + 29573) % 139968
		return float64(seed) / 139968
	}
	for range 3 * size {
		random()
	}
	frequencies := [4]float64{0.3029549426680, 0.1979883004921, 0.1975473066391, 0.3015094502008}
	strand := make([]byte, 5*size)
	for i := range strand {
		rest := random()
		code := 0
		for code < 3 && rest >= frequencies[code] {
			rest -= frequencies[code]
			code++
		}
		strand[i] = byte(code)
	}
	lengths := [13]int{18, 18, 18, 18, 12, 12, 12, 12, 6, 4, 3, 2, 1}
	sought := "GGTATTTTAATTTATAGT"
	find := func(job int) int {
		length := lengths[job]
		mask := uint64(1)<<(2*length) - 1
		table := make(map[uint64]uint32)
		key := uint64(0)
		for i, code := range strand {
			key = (key<<2 | uint64(code)) & mask
			if i+1 >= length && (length < 12 || key>>(2*length-2) == uint64(job%4)) {
				table[key]++
			}
		}
		if length <= 2 {
			sum := 0
			for key, count := range table {
				sum += int(key+1) * int(count)
			}
			return sum
		}
		key = 0
		for _, letter := range sought[:length] {
			key = key<<2 | map[rune]uint64{'A': 0, 'C': 1, 'G': 2, 'T': 3}[letter]
		}
		return int(table[key])
	}
	return func(n int) span {
		return repeat(n, len(strand), func() {
			for i, count := range all(len(lengths), find) {
				check(count, found[i])
			}
		})
	}
}

func mandelbrot(side int, hash uint64) func(int) span {
	row := func(y int) []byte {
		ci := 2*float64(y)/float64(side) - 1
		bits := make([]byte, (side+7)/8)
		for x := range side {
			cr := 2*float64(x)/float64(side) - 1.5
			var zr, zi, tr, ti float64
			for left := 50; left > 0 && tr+ti <= 4; left-- {
				zi = 2*zr*zi + ci
				zr = tr - ti + cr
				tr, ti = zr*zr, zi*zi
			}
			if tr+ti <= 4 {
				bits[x/8] |= 0x80 >> (x % 8)
			}
		}
		return bits
	}
	return func(n int) span {
		return repeat(n, side*side, func() {
			got := uint64(0xcbf29ce484222325)
			for _, row := range all(side, row) {
				for _, bits := range row {
					got = (got ^ uint64(bits)) * 0x100000001b3
				}
			}
			if got != hash {
				fail(fmt.Sprintf("another picture: %d", got))
			}
		})
	}
}

func spectralNorm(rows int, norm string, jobs int) func(int) span {
	element := func(i, j int) float64 { return 1 / float64((i+j)*(i+j+1)/2+i+1) }
	transposed := func(i, j int) float64 { return 1 / float64((i+j)*(i+j+1)/2+j+1) }
	part := func(vector, product []float64, job int, transpose bool) {
		for i := job * rows / jobs; i < (job+1)*rows/jobs; i++ {
			sum := 0.0
			if transpose {
				for j, x := range vector {
					sum += transposed(i, j) * x
				}
			} else {
				for j, x := range vector {
					sum += element(i, j) * x
				}
			}
			product[i] = sum
		}
	}
	times := func(vector []float64, transpose bool) []float64 {
		product := make([]float64, rows)
		all(jobs, func(job int) struct{} { part(vector, product, job, transpose); return struct{}{} })
		return product
	}
	squared := func(vector []float64) []float64 { return times(times(vector, false), true) }
	dot := func(a, b []float64) float64 {
		sum := 0.0
		for i := range a {
			sum += a[i] * b[i]
		}
		return sum
	}
	return func(n int) span {
		return repeat(n, 40*rows*rows, func() {
			u, v := make([]float64, rows), []float64(nil)
			for i := range u {
				u[i] = 1
			}
			for range 10 {
				v = squared(u)
				u = squared(v)
			}
			if got := fmt.Sprintf("%.9f", math.Sqrt(dot(u, v)/dot(v, v))); got != norm {
				fail("another norm: " + got)
			}
		})
	}
}

type creature struct {
	colour byte
	wake   chan byte
}

func game(colours []byte, meetings int) int {
	var place sync.Mutex
	var waiting *creature
	met := make(chan int, len(colours))
	for _, colour := range colours {
		go func() {
			me := &creature{colour, make(chan byte, 1)}
			count := 0
			for ; ; count++ {
				place.Lock()
				if meetings == 0 {
					place.Unlock()
					met <- count
					return
				}
				partner := waiting
				if partner == nil {
					waiting = me
				} else {
					waiting = nil
					meetings--
				}
				place.Unlock()
				var other byte
				if partner == nil {
					other = <-me.wake
				} else {
					// Read before it is told, since then it goes on.
					other = partner.colour
					partner.wake <- me.colour
				}
				if me.colour != other {
					me.colour = 3 - me.colour - other
				}
			}
		}()
	}
	sum := 0
	for range colours {
		sum += <-met
	}
	return sum
}

func chameneos(n int) span {
	half := (n + 1) / 2
	watch := start()
	met := game([]byte{0, 1, 2}, half) + game([]byte{0, 1, 2, 1, 2, 0, 1, 2, 1, 0}, half)
	s := watch.stop(2 * half)
	check(met, 4*half)
	return s
}

func primesSieve(last, sum, messages int) func(int) span {
	return func(n int) span {
		return repeat(n, messages, func() {
			first := make(chan int, 1)
			go func() {
				for number := 2; number <= last; number++ {
					first <- number
				}
				first <- 0
			}()
			atEnd, got := first, 0
			for {
				prime := <-atEnd
				if prime == 0 {
					break
				}
				got += prime
				from, to := atEnd, make(chan int, 1)
				go func() {
					for {
						number := <-from
						if number%prime != 0 || number == 0 {
							to <- number
						}
						if number == 0 {
							return
						}
					}
				}()
				atEnd = to
			}
			check(got, sum)
		})
	}
}
