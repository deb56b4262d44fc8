import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { withReplaced } from '../../src/console/backup/newer-records.ts'
import { insert, openRepository } from '../support/repository.ts'
import { NOW_MS, someKey } from '../support/stored-keys.ts'
import { databaseDirectory } from '../support/temporary-directory.ts'

test('the database that a restore replaces is opened once, however many keys are compared', async () => {
  const file = join(databaseDirectory(), 'keys.db')
  const clock = { wallMs: () => NOW_MS, monotonicMs: () => NOW_MS }
  const repository = await openRepository(`sqlite:${file}`, clock)
  await repository.registerRegions(['default'])
  const [first, second] = [someKey(), someKey()]
  for (const key of [first, second]) await insert(repository, key)
  await repository.close()
  const records = withReplaced({ read: async () => new Map() }, `sqlite:${file}`, NOW_MS)
  try {
    expect(await records.read([first.digest])).toHaveProperty('size', 1)
    // An open file stays readable; another opening would find none.
    await rm(file)
    expect(await records.read([second.digest])).toHaveProperty('size', 1)
    expect(records.unreadBecause()).toBeNull()
  } finally {
    await records.close()
  }
})
