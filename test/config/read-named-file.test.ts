import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readNamedFile } from '../../src/config/setting-files.ts'
import { StartError } from '../../src/domain/errors.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'

test('a file that is not there stops the start with the name of its setting, not with a stack trace', () => {
  const file = join(temporaryDirectory(), 'ca.pem')
  const read = () => readNamedFile(file, 'upstream.tls.caFile')
  expect(read).toThrow(StartError)
  expect(read).toThrow(
    'upstream.tls.caFile names a file that cannot be read: ENOENT: no such file or directory',
  )
  writeFileSync(file, 'text')
  expect(read()).toBe('text')
})
