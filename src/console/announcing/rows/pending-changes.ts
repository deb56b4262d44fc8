/** A committed change that is not announced yet. */
export interface PendingChange {
  readonly digest: string
  readonly version: number
  /** Time of the commit, in ms since the epoch. */
  readonly atMs: number
}

/** The outbox of one region: committed changes that are not announced to it yet. */
export interface PendingChanges {
  /** Oldest first; other consoles leave them alone while this one announces them. */
  claimChanges(limit: number): Promise<PendingChange[]>
  /** In the order of versions. */
  pendingChangesOf(digest: string): Promise<PendingChange[]>
  /**
   * Times of the oldest and the newest pending change; null if there is none.
   * @throws if the region is not registered, or not all its keys are requeued: changes may be missing from its outbox
   */
  pendingSpan(): Promise<{ oldestMs: number; newestMs: number } | null>
  /** Whether a change of a key of the workspace that was committed until then is not announced yet. */
  hasPendingUntil(workspaceId: string, atMs: number): Promise<boolean>
  countPending(): Promise<number>
  /** Time of the oldest pending change; null if there is none. */
  oldestPendingMs(): Promise<number | null>
  /** Once they are announced. */
  deletePendingChanges(changes: readonly PendingChange[]): Promise<void>
  /** Puts every change since then, other than issuing, into the outbox again. */
  requeueChangesSince(sinceMs: number): Promise<void>
  /** For a region that was added: puts the changes of some more keys into its outbox. @returns whether there are more */
  requeueNextKeys(): Promise<boolean>
}

/** Which regions get a copy of each change. Several consoles on one database agree through it. */
export interface RegionRegister {
  /** The outbox of a region; the repository's own is that of `default`. */
  pendingIn(region: string): PendingChanges
  /** States that this console announces to these regions. One that was not registered gets the changes of all keys. */
  registerRegions(names: readonly string[]): Promise<void>
  /** Forgets regions that no console announces to any more. @returns their names */
  forgetRegions(): Promise<string[]>
}
