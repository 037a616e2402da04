// Go's side of `par_enter`. Used by main.go.
package main

type piece struct {
	taken int
	at    uint64
}

func (p *piece) run(steps int) {
	at := p.at
	for range steps {
		at = (at ^ at>>7) * 0x5851f42d4c957f2d
	}
	p.at = at
	p.taken += steps
}

func parEnter(steps, n int) span {
	pieces := [2]piece{{at: 3}, {at: 5}}
	done := make(chan struct{}, 1)
	watch := start()
	for range n {
		go func() {
			pieces[1].run(steps)
			done <- struct{}{}
		}()
		pieces[0].run(steps)
		<-done
	}
	s := watch.stop(n)
	check(pieces[0].taken+pieces[1].taken, 2*n*steps)
	return s
}
