import { beforeEach, expect, onTestFinished, test } from 'vitest'
import type { ChangeWriter } from '../../src/console/platform/database/database.ts'
import { createSerialWriter } from '../../src/console/platform/database/sqlite/database.ts'
import { openDatabase } from '../support/open-database.ts'

let writer: ChangeWriter
let done: string[]

beforeEach(async () => {
  const database = await openDatabase('sqlite::memory:')
  onTestFinished(() => database.close())
  writer = createSerialWriter(database.writer)
  done = []
})

/** Work that says when it is done. */
const work = (name: string) => async () => void done.push(name)
const failing = async () => {
  throw new Error('failed')
}

test('on SQLite, work that has time is done with the next change, and once', async () => {
  const first = writer.run(async () => {
    done.push('change')
    return 7
  })
  const later = writer.announceWithNext(work('announcement'))
  const second = writer.run(work('next change'))
  expect(await first).toBe(7)
  await Promise.all([later, second])
  expect(done).toEqual(['announcement', 'change', 'next change'])
  await writer.run(work('last'))
  await writer.announce(work('announcing'))
  expect(done.slice(3)).toEqual(['last', 'announcing'])
})

test('on SQLite, work that has time is done without a change, too', async () => {
  await writer.announceWithNext(work('announcement'))
  expect(done).toEqual(['announcement'])
})

test('on SQLite, work that fails is not tried again with every later change', async () => {
  await expect(writer.announceWithNext(failing)).rejects.toThrow('failed')
  await writer.run(work('change'))
  expect(done).toEqual(['change'])
})

test('on SQLite, work that was done with a change that failed is done again', async () => {
  const change = writer.run(failing)
  const later = writer.announceWithNext(work('announcement'))
  await expect(change).rejects.toThrow('failed')
  await later
  expect(done).toEqual(['announcement', 'announcement'])
})
