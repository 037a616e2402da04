(* OCaml's side of the workloads that are about effects. It is started as [rival WORKLOAD ARGUMENT...], reads numbers of
   operations from its input, one a line, and answers each with [operations cpu-ns wall-ns]. What is timed is what the Rust
   file of the same workload times. *)

open Effect
open Effect.Deep

let fail why = prerr_endline ("rival: " ^ why); exit 2
let check got expected = if got <> expected then fail (Printf.sprintf "got %d, expected %d" got expected)

(* Runs [work], which has [ops] operations. *)
let timed ops work =
  let cpu = Sys.time () and wall = Unix.gettimeofday () in
  let result = work () in
  let cpu = Sys.time () -. cpu and wall = Unix.gettimeofday () -. wall in
  (result, (ops, cpu, wall))

(* Runs [one] for each number below [n]; the results are the numbers, each [more] larger. *)
let each n more one =
  let sum, span = timed n (fun () ->
    let sum = ref 0 in
    for i = 0 to n - 1 do sum := !sum + one (Sys.opaque_identity i) done;
    !sum) in
  check sum (n * (n - 1) / 2 + more * n);
  span

type _ Effect.t += Next : int -> int Effect.t
type _ Effect.t += Other : unit Effect.t
exception Stop of int

let resumes : (int, int) handler =
  { retc = Fun.id; exnc = raise;
    effc = fun (type a) (e : a Effect.t) -> match e with
      | Next x -> Some (fun (k : (a, int) continuation) -> continue k (x + 1))
      | _ -> None }

let discontinues : (int, int) handler =
  { retc = Fun.id; exnc = (function Stop x -> x | e -> raise e);
    effc = fun (type a) (e : a Effect.t) -> match e with
      | Next x -> Some (fun (k : (a, int) continuation) -> discontinue k (Stop (x + 1)))
      | _ -> None }

let rec under others body =
  if others = 0 then body ()
  else match_with (under (others - 1)) body
    { retc = Fun.id; exnc = raise;
      effc = fun (type a) (e : a Effect.t) -> match e with
        | Other -> Some (fun (k : (a, _) continuation) -> continue k ())
        | _ -> None }

let next i = perform (Next i)

let perform_under depth n =
  match_with (under (depth - 1)) (fun () -> each n 1 next)
    { retc = Fun.id; exnc = raise;
      effc = fun (type a) (e : a Effect.t) -> match e with
        | Next x -> Some (fun (k : (a, _) continuation) -> continue k (x + 1))
        | _ -> None }

let rec down calls x = if calls = 0 then raise_notrace (Stop x) else Sys.opaque_identity (down (calls - 1) x)

let rec ack m n = if m = 0 then n + 1 else if n = 0 then ack (m - 1) 1 else ack (m - 1) (ack m (n - 1))
let rec fib n = if n < 2 then 1 else fib (n - 1) + fib (n - 2)
let rec motzkin n =
  if n < 2 then 1
  else begin
    let sum = ref (motzkin (n - 1)) in
    for i = 0 to n - 2 do sum := !sum + motzkin i * motzkin (n - 2 - i) done;
    !sum
  end
let rec sudan n x y =
  if n = 0 then x + y else if y = 0 then x
  else let inner = sudan n x (y - 1) in sudan (n - 1) inner (inner + y)
let rec tak x y z = if x <= y then z else tak (tak (x - 1) y z) (tak (y - 1) z x) (tak (z - 1) x y)

let never : (int, int) handler =
  { retc = Fun.id; exnc = raise;
    effc = fun (type a) (e : a Effect.t) -> match e with
      | Other -> Some (fun (k : (a, int) continuation) -> continue k ())
      | _ -> None }
let handled f x = match_with f x never

let rec ack' m n = if m = 0 then n + 1 else if n = 0 then ack' (m - 1) 1 else ack' (m - 1) (handled (ack' m) (n - 1))
let rec fib' n = if n < 2 then 1 else handled fib' (n - 1) + handled fib' (n - 2)
let rec motzkin' n =
  if n < 2 then 1
  else begin
    let sum = ref (handled motzkin' (n - 1)) in
    for i = 0 to n - 2 do sum := !sum + handled motzkin' i * handled motzkin' (n - 2 - i) done;
    !sum
  end
let rec sudan' n x y =
  if n = 0 then x + y else if y = 0 then x
  else let inner = handled (sudan' n x) (y - 1) in sudan' (n - 1) inner (inner + y)
let rec tak' x y z =
  if x <= y then z
  else tak' (handled (tak' (x - 1) y) z) (handled (tak' (y - 1) z) x) (handled (tak' (z - 1) x) y)

let repeat f result calls n =
  let times = (n + calls - 1) / calls in
  snd (timed (times * calls) (fun () -> for _ = 1 to times do check (Sys.opaque_identity f ()) result done))

type tree = Leaf | Node of tree * int * tree
type _ Effect.t += Give : int -> unit Effect.t

let rec complete depth last =
  if depth = 0 then Leaf
  else begin
    let left = complete (depth - 1) last in
    incr last;
    let value = !last in
    Node (left, value, complete (depth - 1) last)
  end

let rec walk = function
  | Leaf -> ()
  | Node (left, value, right) -> walk left; perform (Give value); walk right

type step = Over | Given of int * (unit, step) continuation

let steps : (unit, step) handler =
  { retc = (fun () -> Over); exnc = raise;
    effc = fun (type a) (e : a Effect.t) -> match e with
      | Give x -> Some (fun (k : (a, step) continuation) -> Given (x, k))
      | _ -> None }

let generator depth =
  let size = ref 0 in
  let tree = complete depth size in
  let size = !size in
  fun n ->
    let sum, span = timed n (fun () ->
      let sum = ref 0 and asked = ref 0 and step = ref (match_with walk tree steps) in
      while !asked < n do
        match !step with
        | Given (x, k) ->
          sum := !sum + x;
          incr asked;
          if !asked < n then step := continue k ()
        | Over -> step := match_with walk tree steps
      done;
      !sum) in
    let below last = last * (last + 1) / 2 in
    check sum (n / size * below size + below (n mod size));
    span

let () =
  let arg i = if i < Array.length Sys.argv then Sys.argv.(i) else fail "a missing argument" in
  let number i = int_of_string (arg i) in
  let run = match arg 1, arg 2 with
    | "effects", "install" -> fun n -> each n 1 (fun i -> match_with succ i resumes)
    | "effects", "install_and_perform" -> fun n -> each n 1 (fun i -> match_with next i resumes)
    | "effects", "install_and_discontinue" -> fun n -> each n 1 (fun i -> match_with next i discontinues)
    | "effects", "perform" -> perform_under (number 3)
    | "exceptions", _ ->
      let calls = number 2 in
      fun n -> each n 0 (fun i -> try down calls i with Stop x -> x)
    | "generator", _ -> generator (number 2)
    | "handler_overhead", name ->
      let f, result = match name, arg 3 with
        | "ack", "plain" -> (fun () -> ack 3 4), 125
        | "ack", "on" -> (fun () -> ack' 3 4), 125
        | "fib", "plain" -> (fun () -> fib 20), 10946
        | "fib", "on" -> (fun () -> fib' 20), 10946
        | "motzkin", "plain" -> (fun () -> motzkin 10), 2188
        | "motzkin", "on" -> (fun () -> motzkin' 10), 2188
        | "sudan", "plain" -> (fun () -> sudan 2 2 2), 15569256417
        | "sudan", "on" -> (fun () -> sudan' 2 2 2), 15569256417
        | "tak", "plain" -> (fun () -> tak 18 12 6), 7
        | "tak", "on" -> (fun () -> tak' 18 12 6), 7
        | _ -> fail "no such variant" in
      repeat f result (number 4)
    | _ -> fail "no such workload" in
  try
    while true do
      let ops, cpu, wall = run (int_of_string (String.trim (read_line ()))) in
      Printf.printf "%d %.0f %.0f\n%!" ops (cpu *. 1e9) (wall *. 1e9)
    done
  with End_of_file -> ()
