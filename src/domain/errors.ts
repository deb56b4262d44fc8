/** A mistake in the setup that stops the start. Only its message is printed, so it says what to do. */
export class StartError extends Error {}

/** The same for what a setting names, such as a database, a password or a file: no wait cures it. */
export class SettingError extends StartError {}

/** The code of an error of the system or of a library, such as `ECONNREFUSED`; null if it has none. */
export function errorCode(error: unknown): string | null {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null
}
