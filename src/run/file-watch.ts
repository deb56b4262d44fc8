import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileFingerprintOf, fingerprintOfFailure } from '../config/setting-files.ts'

/** A read that takes longer counts as failed. */
const READ_DEADLINE_MS = 5_000

/** By path, a fingerprint of the content that was last read. */
export type Fingerprints = ReadonlyMap<string, string>

/**
 * Compares contents: Kubernetes swaps the directory of a mounted file, and editors replace files. A watch on the file would
 * miss both.
 * @returns the files whose content has changed
 */
export async function findChangedFiles(known: Fingerprints): Promise<ReadonlyMap<string, string>> {
  const reads = [...known].map(
    async ([file, before]) => [file, before, await fingerprintOfFile(file)] as const,
  )
  const found = await Promise.all(reads)
  return new Map(found.flatMap(([file, before, now]) => (before === now ? [] : [[file, now] as const])))
}

/** Runs `action` at this interval, one run at a time, without keeping the process alive. */
export async function repeat(intervalMs: number, action: () => Promise<void>): Promise<never> {
  for (;;) {
    await sleep(intervalMs, undefined, { ref: false })
    await action()
  }
}

async function fingerprintOfFile(file: string): Promise<string> {
  try {
    return fileFingerprintOf(await readFile(file, { signal: AbortSignal.timeout(READ_DEADLINE_MS) }))
  } catch (error) {
    return fingerprintOfFailure(error)
  }
}
