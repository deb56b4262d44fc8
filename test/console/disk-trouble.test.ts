import { expect, test } from 'vitest'
import {
  AuditWriteError,
  DatabaseUnavailable,
  findTrouble,
  mayRunAgain,
  OutcomeUnknown,
  runChange,
} from '../../src/console/platform/database/database-unavailable.ts'
import { diskTroubleIn } from '../../src/console/platform/database/sqlite/database.ts'

const coded = (code: string, message = 'failed') => Object.assign(new Error(message), { code })

test.each<[string, unknown, string | null]>([
  ['an error of the file system', coded('EACCES'), 'EACCES'],
  ['an error of SQLite', coded('ERR_SQLITE_ERROR', 'database or disk is full'), 'database or disk is full'],
  ['one that another wraps', new Error('failed', { cause: coded('EACCES') }), 'EACCES'],
  ['a database that is unavailable', new DatabaseUnavailable('unreachable', 'disk full'), 'disk full'],
  ['a mistake of the program', coded('ERR_STREAM_DESTROYED'), null],
  ['an error without a code', new Error('x'), null],
  ['no error', 'EACCES', null],
])('trouble with a disk is named to the operator, and no other error is: %s', (_, error, shown) => {
  const found = diskTroubleIn(error)
  if (shown === null) expect(found).toBeNull()
  else expect(found).toMatch(shown)
})

test.each([
  [new DatabaseUnavailable('unreachable', 'x'), true],
  [new DatabaseUnavailable('read_only', 'x'), true],
  [new DatabaseUnavailable('unreachable', 'x', { isOutcomeUnknown: true }), false],
  [new DatabaseUnavailable('full', 'x'), false],
  [new Error('x'), false],
])('another session may do the work again only where nothing was committed: %o: %s', (error, may) => {
  expect(mayRunAgain(error)).toBe(may)
})

test('a change that could not be written with its audit entry says so, once, with what is wrong with the database', () => {
  const lost = new DatabaseUnavailable('unreachable', 'gone')
  expect(lost.message).toBe('The database is unavailable (unreachable): gone')
  const error = AuditWriteError.of(lost)
  expect(error).toMatchObject({ message: 'A change and its audit entry could not be written', cause: lost })
  expect(AuditWriteError.of(error)).toBe(error)
  expect([findTrouble(error), findTrouble(new Error('x')), findTrouble('x')]).toEqual([lost, null, null])
})

test('a change that may be committed names what to look for, and any other error stays as it is', async () => {
  const about = { keyId: 'key_1' }
  const unknown = new AuditWriteError(
    new DatabaseUnavailable('timeout', 'no answer', { isOutcomeUnknown: true }),
  )
  const named = await runChange(about, () => Promise.reject(unknown)).catch((error: unknown) => error)
  expect(named).toBeInstanceOf(OutcomeUnknown)
  expect(named).toMatchObject({
    ...{ about, cause: unknown },
    message: 'The database did not say whether a change was committed',
  })
  for (const error of [new DatabaseUnavailable('timeout', 'no answer'), new Error('x')]) {
    await expect(runChange(about, () => Promise.reject(error))).rejects.toBe(error)
  }
  expect(await runChange(about, async () => 7)).toBe(7)
})
