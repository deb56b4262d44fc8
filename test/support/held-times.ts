import { fileURLToPath } from 'node:url'
import { type PosternProcess, PROGRAM } from './postern-process.ts'

const PRELOAD = fileURLToPath(new URL('held-times.mjs', import.meta.url))

/** Node's arguments to start the program so that its longest times last until the test lets them pass. */
export const HOLDING_TIMES: readonly string[] = ['--import', PRELOAD, ...PROGRAM]

/** A time that a setting may have, and that is held. */
export const HELD_MS = '3600000'

/** What waits for such a time in this process goes on. */
export function letPass({ child }: PosternProcess): void {
  child.kill('SIGPWR')
}
