package dev.wirelab.peer;

/** Why this worker gives up, in words for a person. */
final class Refusal extends Exception {
    private static final long serialVersionUID = 1;

    Refusal(String message) {
        super(message);
    }
}
