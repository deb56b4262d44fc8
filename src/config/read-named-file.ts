import { readFileSync } from 'node:fs'
import { SettingError } from '../domain/start-error.ts'
import { fileErrorText } from './setting-files.ts'

/**
 * Reads a file that a setting names.
 * @throws SettingError that names the setting, if it cannot be read
 */
export function readNamedFile(file: string, setting: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new SettingError(`${setting} names a file that cannot be read: ${fileErrorText(error)}`)
  }
}
