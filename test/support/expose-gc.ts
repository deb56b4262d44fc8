import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')

/** Collects what nobody holds any more: all of it, or only what is young. */
export const collectGarbage: (options?: { type: 'minor' }) => void = runInNewContext('gc')
