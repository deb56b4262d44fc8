import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { fingerprintOf, fingerprintOfFailure } from '../config/setting-files.ts'

/** A read that takes longer counts as failed. */
const READ_DEADLINE_MS = 5_000

/** By path, a fingerprint of the content of each file when it was last read. */
export type Fingerprints = ReadonlyMap<string, string>

/**
 * Compares contents: Kubernetes swaps the directory of a mounted file and editors replace the file, which a watch on the file
 * does not see.
 * @returns the files whose content has changed
 */
export async function findChangedFiles(known: Fingerprints): Promise<ReadonlyMap<string, string>> {
  const reads = [...known].map(
    async ([file, before]) => [file, before, await fingerprintOfFile(file)] as const,
  )
  const found = await Promise.all(reads)
  return new Map(found.flatMap(([file, before, now]) => (before === now ? [] : [[file, now] as const])))
}

/** Never overlaps with itself, and does not keep the process alive. */
export async function repeatedly(everyMs: number, act: () => Promise<void>): Promise<never> {
  for (;;) {
    await sleep(everyMs, undefined, { ref: false })
    await act()
  }
}

async function fingerprintOfFile(file: string): Promise<string> {
  try {
    return fingerprintOf(await readFile(file, { signal: AbortSignal.timeout(READ_DEADLINE_MS) }))
  } catch (error) {
    return fingerprintOfFailure(error)
  }
}
