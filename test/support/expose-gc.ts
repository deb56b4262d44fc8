import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')

/** Collects garbage: all of it, or the young generation alone. */
export const collectGarbage: (options?: { type: 'minor' }) => void = runInNewContext('gc')
