/**
 * Prepares for new settings, or throws if they cannot be used. Only the function that it returns applies them; that one must
 * not fail or wait. So either every part takes over a change, or none does.
 */
export type PrepareReload<Settings> = (settings: Settings) => () => void

/** Registers a part for changes of settings at run time. */
export type OnReload<Settings> = (prepare: PrepareReload<Settings>) => void

/** For parts whose settings never change. */
export const neverReloads = (): void => {}

/** A value made from settings, and replaced when they change: read `value` each time. */
export function reloadable<Settings, Value>(
  settings: Settings,
  onReload: OnReload<Settings>,
  make: (settings: Settings) => Value,
): { readonly value: Value } {
  const current = { value: make(settings) }
  onReload(next => {
    const value = make(next)
    return () => {
      current.value = value
    }
  })
  return current
}

/** For a part that knows only some of the settings. */
export function narrowReload<Whole, Part>(
  onReload: OnReload<Whole>,
  select: (whole: Whole) => Part,
): OnReload<Part> {
  return prepare => onReload(whole => prepare(select(whole)))
}
