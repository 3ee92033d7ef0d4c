// What a Go program draws at random by itself: seeds, the order of maps, of goroutines, of selects.
package main

import (
	"fmt"
	"math/rand"
	"sync"
	"time"
)

func main() {
	rand.Seed(time.Now().UnixNano())
	fmt.Println(rand.Int63(), time.Now().UnixNano())
	numbers := map[int]int{}
	for i := 0; i < 20; i++ {
		numbers[i] = i
	}
	for i := range numbers {
		fmt.Print(i, " ")
	}
	var all sync.WaitGroup
	first, second := make(chan int, 50), make(chan int, 50)
	for i := 0; i < 50; i++ {
		all.Add(1)
		go func(i int) {
			time.Sleep(time.Duration(i%3) * time.Millisecond)
			first <- i
			second <- i
			all.Done()
		}(i)
	}
	all.Wait()
	for i := 0; i < 100; i++ {
		select {
		case i := <-first:
			fmt.Print("a", i, " ")
		case i := <-second:
			fmt.Print("b", i, " ")
		}
	}
	fmt.Println()
}
