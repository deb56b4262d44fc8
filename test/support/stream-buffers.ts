import { setDefaultHighWaterMark } from 'node:stream'

// As `src/main.ts` sets it: parts that a test starts in its own process hold as much as those of the program.
setDefaultHighWaterMark(false, 16 * 1024)
