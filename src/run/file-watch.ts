import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { fingerprintOf, fingerprintOfFault } from '../config/fingerprint.ts'

/** A file that does not come forth in this time counts as one that cannot be read. */
const READ_DEADLINE_MS = 5_000

/** By path, a fingerprint of what each file held when it was last read. */
export type Fingerprints = ReadonlyMap<string, string>

/**
 * Looks at files again and again, by what is in them: Kubernetes swaps the directory that they stand in, editors the file,
 * and neither changes what a watch on the file would see.
 * @returns the files that hold something else than they did
 */
export async function differing(known: Fingerprints): Promise<ReadonlyMap<string, string>> {
  const looks = [...known].map(async ([file, before]) => [file, before, await look(file)] as const)
  const found = await Promise.all(looks)
  return new Map(found.flatMap(([file, before, now]) => (before === now ? [] : [[file, now] as const])))
}

/** Every so often, never twice at once, as long as the process lives for something else. */
export async function repeatedly(everyMs: number, act: () => Promise<void>): Promise<never> {
  for (;;) {
    await sleep(everyMs, undefined, { ref: false })
    await act()
  }
}

async function look(file: string): Promise<string> {
  try {
    return fingerprintOf(await readFile(file, { signal: AbortSignal.timeout(READ_DEADLINE_MS) }))
  } catch (error) {
    return fingerprintOfFault(error)
  }
}
