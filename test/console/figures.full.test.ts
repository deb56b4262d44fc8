import { describeFigures } from './figures.contract.ts'

/** A fifth of what `npm run qualify` measures, with the same memory for a key. */
describeFigures({ keys: 20_000, heldMegabytes: 4, operations: 0 })
