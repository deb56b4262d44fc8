/** A mistake in the setup that stops the start. Only its message is printed, so it says what to do. */
export class StartError extends Error {}
