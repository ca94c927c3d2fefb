"""Properties that hold for every fleet, against judges that share no code with the compiler."""
