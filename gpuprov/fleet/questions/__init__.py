"""What every host can be asked and changes nothing: a module for each question, loaded by whoever asks it."""
