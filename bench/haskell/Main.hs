-- GHC's side of `stm`. Started as `rival stm VARIANT [ARGUMENT...]`, with the number of capabilities
-- in GHCRTS; reads numbers of operations from its input, one a line, and answers each with
-- `operations cpu-ns wall-ns`. What is timed is what the Rust file of the same workload times.
{-# LANGUAGE BangPatterns #-}
module Main (main) where

import Control.Concurrent (forkOn, newEmptyMVar, putMVar, takeMVar)
import Control.Concurrent.STM hiding (check)
import Control.Monad (forM, forM_, replicateM_, unless, when)
import Data.Array (Array, listArray, (!))
import Data.Bits (shiftR)
import Data.IORef
import Data.Word (Word64)
import GHC.Clock (getMonotonicTimeNSec)
import System.CPUTime (getCPUTime)
import System.Environment (getArgs)
import System.Exit (exitFailure)
import System.IO

data Span = Span !Int !Integer !Word64

timed :: Int -> IO a -> IO (a, Span)
timed ops body = do
  cpu <- getCPUTime
  wall <- getMonotonicTimeNSec
  !result <- body
  wall' <- getMonotonicTimeNSec
  cpu' <- getCPUTime
  pure (result, Span ops ((cpu' - cpu) `div` 1000) (wall' - wall))

check :: Int -> Int -> IO ()
check got expected = unless (got == expected) $ do
  hPutStrLn stderr ("rival: got " ++ show got ++ ", expected " ++ show expected)
  exitFailure

-- Calls the body on each capability with its number, and waits.
onEach :: Int -> (Int -> IO ()) -> IO ()
onEach 1 body = body 0
onEach workers body = do
  dones <- forM [0 .. workers - 1] $ \worker -> do
    done <- newEmptyMVar
    _ <- forkOn worker (body worker >> putMVar done ())
    pure done
  forM_ dones takeMVar

-- The first side measures. With one capability both are there.
sides :: IO Span -> IO () -> IO Span
sides first second = do
  result <- newEmptyMVar
  over <- newEmptyMVar
  _ <- forkOn 1 (second >> putMVar over ())
  _ <- forkOn 0 (first >>= putMVar result)
  measured <- takeMVar result
  takeMVar over
  pure measured

-- The numbers that all contestants draw.
step :: Word64 -> Word64
step x = x * 6364136223846793005 + 1442695040888963407

below :: Word64 -> Int -> Int
below x n = fromIntegral ((x `shiftR` 33) `mod` fromIntegral n)

type Accounts = Array Int (TVar Int)

balance :: Int
balance = 1000

newAccounts :: Int -> IO Accounts
newAccounts count = listArray (0, count - 1) <$> forM [1 .. count] (const (newTVarIO balance))

transfer :: Accounts -> Int -> Word64 -> IO Word64
transfer accounts count x = do
  let x' = step x
      x'' = step x'
      from = below x' count
      to = (from + 1 + below x'' (count - 1)) `mod` count
      (a, b) = (accounts ! from, accounts ! to)
  atomically $ do
    p <- readTVar a
    writeTVar a $! p - 1
    q <- readTVar b
    writeTVar b $! q + 1
  pure x''

transfers :: Accounts -> Int -> Word64 -> Int -> IO ()
transfers accounts count = go
  where
    go !_ 0 = pure ()
    go !x n = do
      x' <- transfer accounts count x
      go x' (n - 1 :: Int)

scan :: Accounts -> Int -> IO ()
scan accounts count = do
  sum' <- atomically (go 0 0)
  check sum' (balance * count)
  where
    go !at !acc
      | at == count = pure acc
      | otherwise = readTVar (accounts ! at) >>= \b -> go (at + 1) (acc + b)

share :: Int -> Int -> Int
share workers n = (n + workers - 1) `div` workers

bank :: Int -> Int -> Int -> IO Span
bank workers count n = do
  accounts <- newAccounts count
  let each = share workers n
  (_, s) <- timed (workers * each) $ onEach workers $ \worker -> transfers accounts count (fromIntegral worker) each
  scan accounts count
  pure s

keys :: Int
keys = 1000

buckets :: Int
buckets = 250

lookups :: Int -> Int -> IO Span
lookups workers n = do
  table <- listArray (0, buckets - 1) <$> forM [1 .. buckets] (const (newTVarIO []))
  let bucket key = (table :: Array Int (TVar [(Int, Int)])) ! (key `mod` buckets)
      others key = filter ((/= key) . fst)
      replace key new = atomically $ do
        entries <- readTVar (bucket key)
        let rest = others key entries ++ new
        length rest `seq` writeTVar (bucket key) rest
        pure (any ((== key) . fst) entries)
      go inside !_ 0 = pure (inside :: Int)
      go inside !x left = do
        let x' = step x
            x'' = step x'
            key = below x' keys
        change <- case below x'' 20 of
          0 -> (\there -> if there then 0 else 1) <$> replace key [(key, key)]
          1 -> (\there -> if there then -1 else 0) <$> replace key []
          _ -> do
            found <- lookup key <$> atomically (readTVar (bucket key))
            0 <$ mapM_ (check key) found
        let !inside' = inside + change
        go inside' x'' (left - 1 :: Int)
  forM_ [0, 2 .. keys - 1] $ \key -> replace key [(key, key)]
  inside <- newIORef (keys `div` 2)
  let each = share workers n
  (_, s) <- timed (workers * each) $ onEach workers $ \worker -> do
    change <- go 0 (fromIntegral worker) each
    atomicModifyIORef' inside (\count -> (count + change, ()))
  count <- forM [0 .. buckets - 1] $ \at -> length <$> readTVarIO (table ! at)
  readIORef inside >>= check (sum count)
  pure s

queue :: Int -> IO Span
queue n = do
  passage <- newTBQueueIO 64
  let consume = do
        _ <- atomically (readTBQueue passage)
        (total, s) <- timed n (go 0 n)
        check total (n * (n - 1) `div` 2)
        pure s
      go !acc 0 = pure acc
      go !acc left = atomically (readTBQueue passage) >>= \number -> go (acc + number) (left - 1 :: Int)
      produce = atomically (writeTBQueue passage 0) >> forM_ [0 .. n - 1] (atomically . writeTBQueue passage)
  sides consume produce

put :: TVar (Maybe Int) -> Int -> IO ()
put place !number = atomically $ readTVar place >>= maybe (writeTVar place (Just number)) (const retry)

taken :: TVar (Maybe Int) -> IO Int
taken place = atomically $ readTVar place >>= maybe retry (\number -> number <$ writeTVar place Nothing)

ping :: Int -> IO Span
ping n = do
  there <- newTVarIO Nothing
  back <- newTVarIO Nothing
  let asks = do
        (total, s) <- timed n (go 0 0)
        check total (n * (n + 1) `div` 2)
        pure s
      go !acc number
        | number == n = pure acc
        | otherwise = put there number >> taken back >>= \answer -> go (acc + answer) (number + 1)
  sides asks (replicateM_ n (taken there >>= put back . (+ 1)))

-- Scans and transfers, of which one is measured. Nothing if a scan does not end within half a second.
scanned :: Bool -> Bool -> Int -> Int -> IO (Maybe Span)
scanned scans beside count n = do
  accounts <- newAccounts count
  over <- newIORef False
  starved <- newIORef False
  ended <- newIORef (0 :: Int)
  let oneScan = scan accounts count >> modifyIORef' ended (+ 1)
      some x = go' x (100 :: Int)
      go' x 0 = pure x
      go' x left = transfer accounts count x >>= \x' -> go' x' (left - 1)
      asideTransfers x seen since = do
        done <- (||) <$> readIORef over <*> readIORef starved
        unless done $ do
          x' <- some x
          count' <- readIORef ended
          now <- getMonotonicTimeNSec
          when (count' == seen && now - since > 500000000) (writeIORef starved True)
          if count' == seen then asideTransfers x' seen since else asideTransfers x' count' now
      asideScans = readIORef over >>= \done -> unless done (oneScan >> asideScans)
      measured = (if scans then replicateM_ n oneScan else transfers accounts count 1 n) :: IO ()
      other = when beside $ if scans then getMonotonicTimeNSec >>= asideTransfers 1 0 else asideScans
  s <- sides (timed n measured >>= \(_, s) -> s <$ writeIORef over True) other
  scan accounts count
  failed <- readIORef starved
  pure (if failed then Nothing else Just s)

main :: IO ()
main = do
  hSetBuffering stdout LineBuffering
  arguments <- getArgs
  let always body n = Just <$> body n
      run = case arguments of
        ["stm", "read", count] -> always $ \n -> do
          accounts <- newAccounts (read count)
          snd <$> timed n (replicateM_ n (scan accounts (read count)))
        ["stm", "bank", workers, count] -> always (bank (read workers) (read count))
        ["stm", "map", workers] -> always (lookups (read workers))
        ["stm", "queue", _] -> always queue
        ["stm", "ping", _] -> always ping
        ["stm", "scan", beside, count] -> scanned True (beside == "beside") (read count)
        ["stm", "transfer", beside, count] -> scanned False (beside == "beside") (read count)
        _ -> error "no such workload"
      serve = do
        done <- isEOF
        unless done $ do
          n <- read <$> getLine
          answer <- run n
          putStrLn $ case answer of
            Just (Span ops cpu wall) -> unwords [show ops, show cpu, show wall]
            Nothing -> "error a scan does not end beside transfers"
          serve
  serve
